// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/blocks_layout.hpp"
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/feed_forward/dense_layer/dense_layer.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/plan/search.hpp"
#include "model/feed_forward/reference.hpp"
#include "model/feed_forward/structure/remainder_records.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr int kHalf = kBlockRows / 2;

// Element of a tile [16 rows][16 inputs] in A's fragments: lane, then its registers of two halves.
std::size_t fragment_element(int row, int k) {
  const int lane = row % kHalf * 4 + k % kHalf / 2;
  const int reg = row / kHalf + 2 * (k / kHalf);
  return static_cast<std::size_t>(lane) * 8 + reg * 2 + k % 2;
}

// Element of tile t of a part, by the form of its weights.
double weight_of(const BlocksGeometry& geometry, const std::byte* part, int t, std::size_t element) {
  if (geometry.weight_bytes == 0) {
    return from_bits(Precision::fp16, geometry.one_weight);
  }
  if (geometry.weight_bytes == 1) {  // two tiles in 16 bytes of a lane
    return from_e4m3(static_cast<std::uint8_t>(part[512 * (t / 2) + 16 * (element / 8) + 8 * (t % 2) + element % 8])) /
           geometry.weight_factor;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, part + 512 * t + 2 * element, sizeof(bits));
  return from_bits(Precision::fp16, bits);
}

// One layer as the kernel computes it from a record's own numbers, in double precision: features [places] to features
// [places], scaled.
std::vector<double> run_layer(const BlocksLayout& layout, int layer, const std::vector<double>& features) {
  const BlocksGeometry& geometry = layout.geometry;
  const RecordParts parts(geometry);
  std::vector<double> outputs(geometry.places);
  std::vector<std::uint32_t> before(kBlockColumns);
  const int place_bytes = parts.place_bytes;
  const auto place_at = [&](const std::byte* from) {
    std::uint32_t place = 0;
    std::memcpy(&place, from, place_bytes);
    return place;
  };
  const std::byte* next = nullptr;  // record of the remainder
  for (int block = 0; block < geometry.warps * geometry.warp_blocks; ++block) {
    if (block % geometry.warp_blocks == 0) {
      const int warp = block / geometry.warp_blocks;
      next = layout.remainder.data() + remainder_record_bytes(place_bytes) *
                                           layout.remainder_begin[std::size_t{1} * layer * geometry.warps + warp];
    }
    const std::byte* record =
        layout.records.data() + geometry.layer_bytes() * layer + geometry.record_bytes() * geometry.parts * block;
    std::array<double, kBlockRows> sums{};
    for (int t = 0; t < geometry.tiles; ++t) {
      const int of_part = t % geometry.part_tiles();
      record += t > 0 && of_part == 0 ? geometry.record_bytes() : 0;
      std::vector<std::uint32_t> inputs(kBlockColumns);
      for (int k = 0; k < kBlockColumns; ++k) {
        inputs[k] = place_at(record + parts.inputs + (of_part * kBlockColumns + k) * place_bytes);
      }
      if (inputs[0] & parts.same) {
        inputs = before;
      }
      before = inputs;
      for (int r = 0; r < kBlockRows; ++r) {
        for (int k = 0; k < kBlockColumns; ++k) {
          sums[r] += weight_of(geometry, record, of_part, fragment_element(r, k)) * features[inputs[k]];
        }
      }
    }
    for (std::uint32_t i = 0; i < remainder_count(geometry, record); ++i) {
      for (const OutsideWeight& weight : read_remainder_record(next, place_bytes)) {
        sums[weight.row] += static_cast<double>(from_bits(Precision::fp16, weight.weight)) / geometry.weight_factor *
                            features[weight.place];
      }
      next += remainder_record_bytes(place_bytes);
    }
    for (int r = 0; r < kBlockRows; ++r) {
      float bias;
      std::memcpy(&bias, record + parts.biases + (r % kHalf * 2 + r / kHalf) * sizeof(float), sizeof(float));
      const std::uint32_t destination = place_at(record + parts.destinations + r * place_bytes);
      outputs[destination] = std::clamp(sums[r] + bias, 0.0, static_cast<double>(layout.clip) * layout.scale);
    }
  }
  return outputs;
}

BlocksLayout packed(const char* text) {
  const FeedForward network = read_network(text);
  const NetworkStructure structure = find_structure(network, 0.05);
  return pack_blocks(network, structure, blocks_geometry(network, structure, 16, 0, {}));
}

// The same features come out of a layout's records as out of the layers.
void check_layers(const FeedForward& network, const NetworkStructure& structure) {
  const BlocksGeometry geometry = blocks_geometry(network, structure, 16, 0, {});
  const BlocksLayout layout = pack_blocks(network, structure, geometry);
  for (int l = 0; l < network.layers(); ++l) {
    std::vector<float> features(network.inputs(l));
    std::vector<double> at_places(geometry.places);
    for (int n = 0; n < network.inputs(l); ++n) {
      features[n] = static_cast<float>(n * 7919 % 64) / 8;
      at_places[structure.places[l].of_neuron[n]] = static_cast<double>(features[n]) * layout.scale;
    }
    const std::vector<double> expected = layer_in_double(network.layer(l), network.clip, features);
    const std::vector<double> actual = run_layer(layout, l, at_places);
    for (int n = 0; n < network.outputs(l); ++n) {
      // Biases are rounded to fp32, scaled by a power of two.
      REQUIRE_THAT(actual[structure.places[l + 1].of_neuron[n]] / layout.scale,
                   Catch::Matchers::WithinAbs(expected[n], 1e-6));
    }
  }
}

}  // namespace

TEST_CASE("records of blocks hold the layer: the same features come out of them", "[fast]") {
  const double least_fill = GENERATE(0.05, 0.5);
  for (const char* text :
       {"spdnn:1024x14", "spdnn:1024x8,shuffle=yes", "spdnn:1024x4,values=uniform:0.05..0.075,precision=fp16",
        "spdnn:1024x4,moved=0.05,values=uniform:0.05..0.075,precision=fp8",
        "random:neurons=300-100-64-512,degree=20,blocks=16",
        "random:neurons=300-100-64-512,degree=40,blocks=16,values=uniform:0..3,precision=fp8",
        "random:neurons=50,layers=3,degree=7,blocks=16,bias=-0.1..-0.05", "random:neurons=64,layers=2,degree=0",
        "spdnn:1024x3,moved=0.1", "random:neurons=300-40-400,degree=power-law:1..200"}) {
    INFO(text);
    const FeedForward network = read_network(text);
    check_layers(network, find_structure(network, least_fill));
  }
}

TEST_CASE("records of whole layers hold them, in parts where they are wide", "[fast]") {
  for (const auto& [text, parts] :
       {std::pair{"random:neurons=300-100-64-512,degree=60", 6},
        std::pair{"random:neurons=300-100-64-512,degree=60,values=uniform:0..0.1,precision=fp16", 6},
        std::pair{"random:neurons=150-333,degree=uniform:0..70,bias=-0.1", 4},
        std::pair{"random:neurons=40,layers=2,degree=10", 1}, std::pair{"random:neurons=200,layers=2,degree=0", 1}}) {
    INFO(text);
    const FeedForward network = read_network(text);
    const NetworkStructure structure = whole_layers(network);
    CHECK(blocks_geometry(network, structure, 16, 0, {}).parts == parts);
    CHECK(summary(structure).weights_in_blocks == summary(structure).weights);
    CHECK(summary(structure).reads.extra == 0);
    CHECK(summary(structure).writes.extra == 0);
    check_layers(network, structure);
  }
}

TEST_CASE("weights take the fewest bytes that hold each of them", "[fast]") {
  const auto bytes = [](const char* text) { return packed(text).geometry.weight_bytes; };
  CHECK(bytes("spdnn:1024x3,values=0.1,precision=fp16") == 0);
  CHECK(bytes("random:neurons=300-100-64,degree=20,blocks=16") == 0);  // missing inputs are zeros
  CHECK(bytes("spdnn:1024x3,moved=0.1") == 1);                         // elements without a weight
  CHECK(bytes("spdnn:1024x3,values=uniform:0.05..0.075,precision=fp8") == 1);
  CHECK(bytes("spdnn:1024x3,moved=0.1,values=0.1,precision=fp16") == 2);
  CHECK(bytes("spdnn:1024x3,values=uniform:0.05..0.075,precision=fp16") == 2);
  const std::size_t one = packed("spdnn:1024x3").records.size();
  CHECK(packed("spdnn:1024x3,values=uniform:0.05..0.075,precision=fp8").records.size() - one == 3 * 64 * 512);
  CHECK(packed("spdnn:1024x3,values=uniform:0.05..0.075,precision=fp16").records.size() - one == 3 * 64 * 1024);
}

TEST_CASE("a form that does not hold each weight is refused", "[fast]") {
  const FeedForward network = read_network("spdnn:1024x3,values=uniform:0.05..0.075,precision=fp16");
  const NetworkStructure structure = find_structure(network);
  BlocksGeometry geometry = blocks_geometry(network, structure, 16, 0, {});
  geometry.weight_bytes = GENERATE(0, 1);
  CHECK_THROWS_WITH(pack_blocks(network, structure, geometry),
                    Catch::Matchers::Contains(geometry.weight_bytes == 0 ? "is no weight of the one value"
                                                                         : "is no e4m3 number, scaled"));
}

TEST_CASE("weights are numbers of e4m3 by some power of two exactly where one of all powers says so", "[fast]") {
  std::mt19937_64 random(1);
  const auto draw = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  int held = 0;
  for (int drawn = 0; drawn < 2000; ++drawn) {
    std::vector<float> weights;
    const int lowest = draw(-20, 0), highest = lowest + draw(0, 17), bits = draw(1, 5);
    for (int i = draw(1, 6); i > 0; --i) {
      const int exponent = draw(lowest, highest);
      weights.push_back(std::ldexp(static_cast<float>(draw(0, (1 << bits) - 1)), std::min(exponent, 15 - bits)));
    }
    bool is_any = false;
    for (int power = -30; power <= 40; ++power) {
      is_any |= std::ranges::all_of(weights, [&](float weight) {
        const float scaled = std::ldexp(weight, power);
        return from_e4m3(to_e4m3(scaled)) == scaled;
      });
    }
    const float factor = values_of(weights).e4m3_factor();
    held += factor > 0 ? 1 : 0;
    CHECK((factor > 0) == (is_any && *std::ranges::max_element(weights) > 0));
    CHECK((factor == 0 || std::ranges::all_of(weights, [&](float weight) {
             return from_e4m3(to_e4m3(weight * factor)) == weight * factor;
           })));
  }
  CHECK(held > 500);
  CHECK(held < 1900);
}

TEST_CASE("bounds know whether weights are negative and biases positive, and whether clipped images stay", "[fast]") {
  const BlocksLayout challenge = packed("spdnn:1024x3");
  CHECK(challenge.monotone);
  CHECK(challenge.keeps_clipped);
  CHECK(challenge.scale == 1024);
  CHECK(challenge.slack == 90 * 0x1p-23F);  // 33 / 2 roundings, 2 (32 + 2 * 2) cuts, one more
  CHECK(packed("spdnn:1024x3,moved=0.1").slack > challenge.slack);
  CHECK_FALSE(packed("spdnn:1024x3,values=-0.0625").monotone);
  CHECK_FALSE(packed("spdnn:1024x3,bias=0.1").monotone);
  CHECK_FALSE(packed("spdnn:1024x3,logits=yes").monotone);
  CHECK_FALSE(packed("random:neurons=64,layers=2,degree=8,blocks=16").keeps_clipped);  // rows of 0.5 in all
}

TEST_CASE("what plans of blocks cannot run is refused with the reason", "[fast]") {
  CHECK_THROWS_WITH(
      summary(find_structure(read_network("random:neurons=1024,layers=2,degree=32"))).check_mostly_blocks(),
      Catch::Matchers::Contains("three quarters must be"));
  CHECK_THROWS_WITH(packed("random:neurons=1024,layers=2,degree=32,values=0.1"),
                    Catch::Matchers::Contains("is no fp16 number"));
  CHECK_THROWS_WITH(packed("spdnn:1024x2,values=0.1"), Catch::Matchers::Contains("is no fp16 number"));
  CHECK_THROWS_WITH(packed("spdnn:1024x2,clip=none"), Catch::Matchers::Contains("need a clip"));
  const FeedForward large = read_network("spdnn:16384x1");
  const BlocksGeometry geometry = blocks_geometry(large, find_structure(large));
  CHECK(largest_tile(find_chip("h100_sxm").chip, geometry, 2, 2).why() ==
        "8 images of up to 16384 neurons take 544 KiB of shared memory; a block of H100 SXM has 227 KiB");
}

}  // namespace onchip
