// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/blocks_price.hpp"
#include "model/base/error.hpp"
#include "model/feed_forward/plan/blocks_layout.hpp"
#include "model/feed_forward/plan/off_chip_price.hpp"
#include "model/feed_forward/plan/search.hpp"
#include "model/feed_forward/reference.hpp"
#include "tests/catch.hpp"
#include "tests/model/feed_forward/plans.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

using Catch::Matchers::WithinRel;

namespace onchip {
namespace {

struct Examined {
  FeedForward network;
  NetworkStructure structure;
  BlocksWork work;

  explicit Examined(const std::string& text)
      : network(read_network(text)),
        structure(find_structure(network, 0.05)),
        work(blocks_work(network, structure, blocks_geometry(network, structure, 16, 0, {}))) {}
};

// 8 places of 16 bytes that one wavefront cannot all reach: the most different ones of the same banks.
int wavefronts_of(const std::uint16_t* places) {
  std::array<std::set<int>, 8> of_banks;
  for (int i = 0; i < 8; ++i) {
    of_banks[places[i] % 8].insert(places[i] & 0x7fff);
  }
  return static_cast<int>(std::ranges::max_element(of_banks, {}, [](const auto& set) { return set.size(); })->size());
}

// By the addresses in the records, of one group of 8 images and one word.
std::int64_t counted(const BlocksLayout& layout, int layer) {
  const BlocksGeometry& geometry = layout.geometry;
  std::int64_t count = 0;
  for (int block = 0; block < geometry.warps * geometry.warp_blocks; ++block) {
    const std::byte* at = layout.records.data() + geometry.layer_bytes() * layer + geometry.record_bytes() * block +
                          geometry.weights_bytes() + 64;
    std::vector<std::uint16_t> places(16 * (1 + geometry.tiles));
    std::memcpy(places.data(), at, 2 * places.size());
    for (int t = -1; t < geometry.tiles; ++t) {  // destinations, then inputs
      const std::uint16_t* tile = places.data() + 16 * (t + 1);
      if (t < 0 || !(tile[0] & 0x8000)) {
        count += wavefronts_of(tile) + wavefronts_of(tile + 8);
      }
    }
  }
  return count;
}

Activity halving(const BlocksWork& work, int images) {
  Activity activity{images, {}, 20, 0};
  for (int l = 0; l <= work.geometry.layers; ++l) {
    activity.alive.push_back(std::max(images * 0.03, images * std::pow(0.6, l)));
  }
  return activity;
}

// What the kernel and its launch can do.
void require_legal(const BlocksPlan& plan, const BlocksGeometry& geometry, const Chip& chip) {
  int before = 0;
  for (const BlocksPhase& phase : plan.phases) {
    CHECK(phase.end_layer > before);
    before = phase.end_layer;
    CHECK(phase.tile.words == 1);
  }
  CHECK(before == geometry.layers);
  CHECK(plan.lower.words == 1);
  CHECK(plan.wide.words == 2);
  std::vector<BlocksTile> tiles{plan.lower, plan.wide};
  for (const BlocksPhase& phase : plan.phases) {
    tiles.push_back(phase.tile);
  }
  for (const BlocksTile& tile : tiles) {
    CHECK(tile.images() >= 8);
    CHECK(tile.images() <= 64);
    CHECK(static_cast<double>(geometry.shared_bytes(tile)) <= chip.smem_bytes_per_block);
  }
}

}  // namespace

TEST_CASE("wavefronts of a layer are those of its records' addresses", "[fast]") {
  for (const char* text : {"spdnn:1024x14", "spdnn:1024x8,shuffle=yes,values=uniform:0.05..0.075,precision=fp8",
                           "random:neurons=1000,layers=4,degree=32,blocks=16,values=uniform:0..1,precision=fp16",
                           "random:neurons=300-100-64-512,degree=20,blocks=16,clip=1"}) {
    INFO(text);
    const Examined examined(text);
    const BlocksLayout layout = pack_blocks(examined.network, examined.structure, examined.work.geometry);
    for (int l = 0; l < examined.network.layers(); ++l) {
      const std::int64_t expected = counted(layout, l);
      CHECK(wavefronts(examined.work, {1, 1, false}, l) == expected);
      CHECK(wavefronts(examined.work, {3, 2, true}, l) == 6 * expected);
    }
  }
}

TEST_CASE("the terms of an inference sum to its time, and those of its launches", "[fast]") {
  const Examined examined("spdnn:1024x24");
  const Chip chip = find_chip("h100_sxm").chip;
  const Activity activity = halving(examined.work, 60000);
  const BlocksPlan plan = *choose_blocks_plan(chip, examined.work, activity);
  const InferencePrice price = price_blocks(chip, examined.work, activity, plan);
  CHECK_THAT(price.us, WithinRel(price.terms.total(), 1e-9));
  double launches = 4e6 * chip.library_node_seconds + price_parts::listed_us(chip, activity.alive.back());
  for (const LaunchPrice& launch : price.launches) {
    launches += launch.terms.total();
    for (const Term& term : launch.terms) {
      INFO(term.name);
      CHECK(term.us >= 0);
    }
  }
  CHECK_THAT(launches, WithinRel(price.us, 1e-9));
  CHECK(price.floor_us > 0);
  CHECK(price.floor_us <= price.low_us);
  CHECK(price.low_us < price.us);
  CHECK(price.us < price.high_us);
  CHECK(price.terms[price.binding()] == std::ranges::max_element(price.terms, {}, &Term::us)->us);
}

TEST_CASE("an inference takes no longer with fewer images, more SMs or a faster clock", "[fast]") {
  const Examined examined("spdnn:1024x24");
  const Chip chip = find_chip("h100_sxm").chip;
  const BlocksPlan plan = dropping_plan(chip, examined.work.geometry);
  const auto us = [&](const Chip& on, int images) {
    return price_blocks(on, examined.work, halving(examined.work, images), plan).us;
  };
  double before = 0;
  for (const int images : {1, 100, 10000, 60000, 1000000}) {
    CHECK(us(chip, images) >= before);
    before = us(chip, images);
  }
  Chip more = chip, faster = chip;
  more.sm_count.value *= 2;
  more.l2_line_cycles.value /= 2;  // as many readers of a line at a time
  faster.clock_hz.value *= 1.2;
  CHECK(us(more, 60000) < us(chip, 60000));
  CHECK(us(faster, 60000) < us(chip, 60000));
}

TEST_CASE("where dead images are dropped is found fast, for any course of their deaths", "[fast]") {
  const Chip chip = find_chip("h100_sxm").chip;
  for (const char* text : {"spdnn:1024x120", "random:neurons=2000,layers=7,degree=20,blocks=16,clip=1"}) {
    INFO(text);
    const Examined examined(text);
    const BlocksPlan fixed = dropping_plan(chip, examined.work.geometry);
    std::mt19937 random(1);
    for (int drawn = 0; drawn < 20; ++drawn) {
      Activity activity{static_cast<int>(random() % 100000) + 1, {}, static_cast<int>(random() % 30), 0};
      double alive = activity.images;
      for (int l = 0; l <= examined.work.geometry.layers; ++l) {
        activity.alive.push_back(alive);
        alive = std::floor(alive * (random() % 3 == 0 ? 1 : static_cast<double>(random() % 100) / 99));
      }
      const auto begin = std::chrono::steady_clock::now();
      const BlocksPlan plan = *choose_blocks_plan(chip, examined.work, activity);
      CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));  // 10 ms, on an idle machine
      CHECK(plan == *choose_blocks_plan(chip, examined.work, activity));
      require_legal(plan, examined.work.geometry, chip);
      const BlocksPricer pricer(chip, examined.work, activity);
      CHECK(pricer.price(plan).us <= pricer.price(fixed).us);
      // No other single point of dropping is better.
      for (int l = 1; l < examined.work.geometry.layers; ++l) {
        BlocksPlan two = plan;
        two.phases = {{l, plan.phases.front().tile}, {examined.work.geometry.layers, plan.phases.back().tile}};
        CHECK(pricer.price(plan).us <= pricer.price(two).us * (1 + 1e-9));
      }
    }
  }
}

TEST_CASE("which images are alive is the reference's, or near it from a sample", "[fast]") {
  const FeedForward network = read_network("spdnn:1024x30");
  const ImageSample all = sample_images("digits:3000", 1024, 3000), some = sample_images("digits:3000", 1024, 1000);
  CHECK(image_count(some.inputs) == 1000);
  CHECK(some.of == 3000);
  const ReferenceResult reference = infer_reference(network, all.inputs);
  const Activity exact = find_activity(network, all), sampled = find_activity(network, some);
  REQUIRE(exact.alive.size() == reference.alive.size());
  for (std::size_t l = 0; l < reference.alive.size(); ++l) {
    CHECK(exact.alive[l] == static_cast<double>(reference.alive[l]));
  }
  CHECK(sampled.alive.front() == 3000);
  CHECK_THAT(sampled.image_layers(), WithinRel(exact.image_layers(), 0.1));
  // All features of the survivors are at the clip from there on, and not before.
  const std::vector<float> at = reference_features(network, all.inputs, reference.categories, exact.settled);
  CHECK(std::ranges::all_of(at, [](float feature) { return feature > 31.9F; }));
  CHECK(exact.settled > 10);
  CHECK(exact.settled < 28);
  for (std::size_t l = 0; l < exact.alive.size(); ++l) {  // the truth is in the sample's interval
    CHECK(at_end_of_interval(sampled, -1).alive[l] <= exact.alive[l]);
    CHECK(at_end_of_interval(sampled, 1).alive[l] >= exact.alive[l]);
  }
  CHECK(at_end_of_interval(exact, 1).alive == exact.alive);
  const Activity given = given_activity(network, 500, 0.5);
  CHECK(given.alive.front() == 500);
  CHECK(given.alive.back() == 250);
  CHECK_THROWS_AS(given_activity(network, 500, 1.5), InputError);
  CHECK_THROWS_AS(find_activity(network, sample_images("digits:0", 1024, 10)), InputError);
}

TEST_CASE("a sample of images has every so manieth of them, of files, too", "[fast]") {
  const Inputs all = read_images("digits:10", 1024);
  const Inputs some = sample_images("digits:10", 1024, 5).inputs;
  for (int i = 0; i < 5; ++i) {
    std::vector<int> expected, found;
    for_each_feature(all, 2 * i, [&](int neuron, float) { expected.push_back(neuron); });
    for_each_feature(some, i, [&](int neuron, float) { found.push_back(neuron); });
    CHECK(found == expected);
  }
}

TEST_CASE("as many blocks are ahead as registers allow", "[fast]") {
  // As NVRTC compiles them for sm_90 without a spill.
  const Chip chip = find_chip("h100_sxm").chip;
  const auto geometry = [](const char* text, int weight_bytes = 2) {
    const FeedForward network = read_network(text);
    return blocks_geometry(network, find_structure(network), 16, 0, weight_bytes);
  };
  const BlocksGeometry small = geometry("spdnn:1024x2"), large = geometry("spdnn:4096x2");
  CHECK(weights_ahead(chip, small, {4, 1, false}) == 4);
  CHECK(weights_ahead(chip, small, {2, 2, false}) == 4);
  CHECK(weights_ahead(chip, large, {2, 1, true}) == 2);
  CHECK(weights_ahead(chip, large, {3, 1, true}) == 1);
  CHECK(weights_ahead(chip, geometry("spdnn:4096x2", 0), {3, 1, true}) == 4);  // in shared memory
}

TEST_CASE("streamed and unstructured plans are priced in terms that sum up, longer with more images", "[fast]") {
  const Chip chip = find_chip("h100_sxm").chip;
  const FeedForward network = read_network("spdnn:16384x12"), random = read_network("random:neurons=1024,layers=20");
  const NetworkStructure structure = find_structure(network);
  const StreamedPlan streamed = choose_streamed_plan(chip, network, structure);
  const BlocksWork work = blocks_work(network, structure, streamed_geometry(network, structure, streamed.chain));
  const UnstructuredPlan unstructured = dropping_plan(chip, random);
  const std::vector<UnstructuredWork> steps = unstructured_work(random, unstructured);
  double streamed_before = 0, unstructured_before = 0;
  for (const int images : {1000, 10000, 60000}) {
    const InferencePrice a = price_streamed(chip, work, given_activity(network, images, 0.1), streamed);
    const InferencePrice b = price_unstructured(chip, random, steps, given_activity(random, images, 0.1), unstructured);
    for (const InferencePrice& price : {a, b}) {
      double sum = 0;
      for (const LaunchPrice& launch : price.launches) {
        sum += launch.terms.total();
      }
      CHECK(sum == Approx(price.us));
      CHECK(price.terms.total() == Approx(price.us));
      CHECK(price.low_us < price.us);
    }
    CHECK(a.us > streamed_before);
    CHECK(b.us > unstructured_before);
    streamed_before = a.us;
    unstructured_before = b.us;
  }
  // A read of 128 bytes serves 32 weights at least.
  const UnstructuredTile& tile = steps.front().tile;
  CHECK(steps.front().steps * tile.rows_per_warp() / tile.rows_per_access() >= 1024 * 32 * tile.images / 32);
}

// Measured on an H200, all images alive, a tile for each SM: docs/notebook/feed-forward-prices.md.
TEST_CASE("unstructured layers are priced within 12 %, of short rows and long ones, narrow and wide", "[fast]") {
  struct Probe {
    int neurons, degree, images;
    const char *tile, *values;
    double us;
  };
  const Chip chip = find_chip("h200").chip;
  for (const Probe& probe : {Probe{1024, 32, 32, "32!", "0.0625", 2158}, Probe{1024, 8, 32, "32!", "0.3", 779},
                             Probe{1024, 8, 16, "16!+1024", "0.25", 431}, Probe{256, 8, 8, "8+256", "0.25", 111},
                             Probe{1024, 32, 1, "1", "0.0625", 281}}) {
    const FeedForward network =
        read_network("random:neurons=" + std::to_string(probe.neurons) +
                     ",layers=80,clip=32,degree=" + std::to_string(probe.degree) + ",values=" + probe.values);
    const std::string tile = probe.tile;
    const auto plan = std::get<UnstructuredPlan>(
        parse_feed_forward_plan("unstructured ascending warps=16 phases=40:" + tile + ",80:" + tile));
    const InferencePrice price = price_unstructured(chip, network, unstructured_work(network, plan),
                                                    given_activity(network, 132 * probe.images, 1), plan);
    CAPTURE(network.name, tile, price.us);
    CHECK(price.us == Approx(probe.us).epsilon(0.12));
    CHECK(price.low_us < probe.us);
    CHECK(price.high_us > probe.us);
  }
}

}  // namespace onchip
