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
#include <cstddef>
#include <cstdint>
#include <cstring>
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
      std::vector<std::uint16_t> tile(kBlockRows * kBlockColumns);
      std::vector<std::uint32_t> inputs(kBlockColumns);
      std::memcpy(tile.data(), record + of_part * 2 * tile.size(), 2 * tile.size());
      for (int k = 0; k < kBlockColumns; ++k) {
        inputs[k] = place_at(record + parts.inputs + (of_part * kBlockColumns + k) * place_bytes);
      }
      if (inputs[0] & parts.same) {
        inputs = before;
      }
      before = inputs;
      for (int r = 0; r < kBlockRows; ++r) {
        for (int k = 0; k < kBlockColumns; ++k) {
          sums[r] +=
              static_cast<double>(from_bits(Precision::fp16, tile[fragment_element(r, k)])) * features[inputs[k]];
        }
      }
    }
    for (std::uint32_t i = 0; i < remainder_count(geometry, record); ++i) {
      for (const OutsideWeight& weight : read_remainder_record(next, place_bytes)) {
        sums[weight.row] += static_cast<double>(from_bits(Precision::fp16, weight.weight)) * features[weight.place];
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
  return pack_blocks(network, structure, blocks_geometry(network, structure));
}

// The same features come out of a layout's records as out of the layers.
void check_layers(const FeedForward& network, const NetworkStructure& structure) {
  const BlocksGeometry geometry = blocks_geometry(network, structure);
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
       {"spdnn:1024x14", "spdnn:1024x8,shuffle=yes", "random:neurons=300-100-64-512,degree=20,blocks=16",
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
        std::pair{"random:neurons=150-333,degree=uniform:0..70,bias=-0.1", 4},
        std::pair{"random:neurons=40,layers=2,degree=10", 1}, std::pair{"random:neurons=200,layers=2,degree=0", 1}}) {
    INFO(text);
    const FeedForward network = read_network(text);
    const NetworkStructure structure = whole_layers(network);
    CHECK(blocks_geometry(network, structure).parts == parts);
    CHECK(summary(structure).weights_in_blocks == summary(structure).weights);
    CHECK(summary(structure).reads.extra == 0);
    CHECK(summary(structure).writes.extra == 0);
    check_layers(network, structure);
  }
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
