// SPDX-License-Identifier: Apache-2.0
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/plan/search.hpp"
#include "model/feed_forward/staged/price.hpp"
#include "tests/catch.hpp"
#include "tests/model/feed_forward/plans.hpp"

#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

using namespace onchip;

namespace {

std::vector<StagedCounts> counts_of(const std::string& network_text, const StagedPlan& plan) {
  const FeedForward network = read_network(network_text);
  std::vector<StagedCounts> counts(static_cast<std::size_t>(network.layers()));
  parallel_for(network.layers(), all_cores(), [&](int l) { counts[l] = count(stage(network.layer(l), plan), plan); });
  return counts;
}

double price_us(const std::string& plan_text, const std::string& network, std::vector<std::int64_t> alive) {
  const StagedPlan plan = staged_plan(plan_text);
  const std::vector<StagedCounts> counts = counts_of(network, plan);
  alive.resize(counts.size(), alive.back());
  return price_staged(find_chip("h200").chip, plan, counts, alive).terms.total();
}

}  // namespace

TEST_CASE("a read of shared memory takes as many wavefronts as a bank has distinct words", "[feed_forward][fast]") {
  std::array<std::uint16_t, 32> words{};
  CHECK(read_wavefronts(words) == 1);  // all the same word
  std::iota(words.begin(), words.end(), std::uint16_t{100});
  CHECK(read_wavefronts(words) == 1);
  words[0] = 132;  // the bank of 100, which nobody reads now
  CHECK(read_wavefronts(words) == 1);
  words[1] = 164;
  CHECK(read_wavefronts(words) == 2);
  for (int i = 0; i < 32; ++i) {
    words[i] = static_cast<std::uint16_t>(64 * i);
  }
  CHECK(read_wavefronts(words) == 32);
}

TEST_CASE("what a staged layer makes the hardware do is counted from its layout", "[feed_forward][fast]") {
  // Rows of 32 neighbours: row r has the inputs r and r + 64; one chunk of 96 inputs, 0 to 95.
  SparseLayer layer{{32, 200, {0}, {}, {}}, {-1}};
  for (int r = 0; r < 32; ++r) {
    layer.weights.column.insert(layer.weights.column.end(), {r, r + 64});
    layer.weights.value.insert(layer.weights.value.end(), {1, 1});
    layer.weights.row_begin.push_back(layer.weights.nnz());
  }
  const StagedPlan plan = staged_plan("staged block_outputs=32");
  const StagedCounts counts = count(stage(layer, plan), plan);
  CHECK(counts.slice_rows == 2);
  CHECK(counts.gather_wavefronts == 2);
  CHECK(counts.store_wavefronts == 2);  // 64 inputs
  CHECK(counts.request_lines == 2);     // 0 to 31, 64 to 95
  CHECK(counts.feature_sectors == 8);   // 4 of each
  CHECK(counts.bitmap_sectors == 2);
  CHECK(counts.chunks == 1);
  CHECK(counts.chain == 2);
  CHECK(counts.record_bytes == 2 * 32 * 6 + 64 * 2);
  const StagedPlan unstaged = staged_plan("staged l1 block_outputs=32");
  const StagedCounts direct = count(stage(layer, unstaged), unstaged);
  CHECK(direct.gather_wavefronts == 2);
  CHECK(direct.feature_sectors == 8);
  CHECK(direct.store_wavefronts == 0);
}

// Measured on an H200 by the champion's own code (CUDA 13.0, 120 layers, 60,000 synthetic digits): of 4096 neurons by
// blocks of 1024 outputs and chunks of 96 KB, of the others by the best setting that was tried. No number of the price
// was fitted to them. Their code reads the first layer's inputs as fp32 and counts live outputs by atomics: not priced.
TEST_CASE("the champion's times of 2020 on an H200 are predicted within 15 %, 10 % in the mean",
          "[feed_forward][slow]") {
  struct Measured {
    const char *network, *plan;
    std::vector<std::int64_t> alive;  // that enter each layer, and each of those behind the last
    double ms, error;
  };
  const std::vector<Measured> all{
      {"spdnn:1024x120",
       "staged compact_on_host",
       {60000, 56242, 35938, 18491, 9451, 5196, 3362, 2450, 2014, 1896, 1857, 1833, 1822, 1819, 1817, 1815},
       9.24,
       0.036},
      {"spdnn:4096x120",
       "staged compact_on_host block_outputs=1024 staged_bytes=98304",
       {60000, 56189, 39458, 22825, 12316, 7168, 4219, 3317, 2725, 2247, 1927, 1828, 1792, 1780, 1775, 1774, 1773},
       32.8,
       -0.111},
      {"spdnn:16384x120",
       "staged compact_on_host block_outputs=1024 staged_bytes=98304",
       {60000, 53520, 38665, 23654, 14589, 9176, 5918, 3859, 3157, 2787, 2549, 2228, 2021, 1962, 1938, 1928, 1917},
       197.6,
       -0.114},
  };
  double mean = 0;
  for (const Measured& measured : all) {
    INFO(measured.network);
    const double error = 1e-3 * price_us(measured.plan, measured.network, measured.alive) / measured.ms - 1;
    CHECK_THAT(error, Catch::Matchers::WithinAbs(measured.error, 0.005));
    mean += std::fabs(error) / static_cast<double>(all.size());
  }
  CHECK(mean < 0.1);
  // What was found to be the best setting of 4096 neurons is the better one by the price, too.
  CHECK(price_us(all[1].plan, all[1].network, all[1].alive) <
        price_us("staged compact_on_host", all[1].network, all[1].alive));
}

TEST_CASE("each of the champion's optimisations is worth its price", "[feed_forward][fast]") {
  const std::string network = "spdnn:1024x12";
  const std::vector<std::int64_t> alive{60000, 56242, 35938, 18491, 9451, 5196, 3362, 2450, 2014, 1896, 1857, 1833};
  const double usual = price_us("staged", network, alive);
  CHECK(price_us("staged l1", network, alive) > usual);
  CHECK(price_us("staged unblocked", network, alive) > usual);
  CHECK(price_us("staged compact_on_host", network, alive) > usual);
  CHECK(price_us("staged copied_ahead", network, alive) >= usual);
  CHECK(price_us("staged copied", network, alive) > price_us("staged copied_ahead", network, alive));
  CHECK(price_us("staged keep_dead", network, {60000}) > usual);
  CHECK(price_us("staged fp16", network, alive) < usual);
  CHECK(price_us("staged images=1", network, alive) > usual);
  CHECK(price_us("staged", network, {0}) < 100);  // launches only
}

TEST_CASE("the price of a staged plan is its terms' sum, above the wavefronts of shared memory",
          "[feed_forward][fast]") {
  const Chip chip = find_chip("h200").chip;
  const StagedPlan plan;
  const std::vector<StagedCounts> counts = counts_of("spdnn:1024x2", plan);
  const std::vector<std::int64_t> alive{25, 12};  // 3 tiles, 1 tile
  const std::int64_t wavefronts = shared_wavefronts(plan, counts, alive);
  CHECK(wavefronts == 36 * (counts[0].gather_wavefronts + counts[0].store_wavefronts) +
                          12 * (counts[1].gather_wavefronts + counts[1].store_wavefronts));
  const Price price = price_staged(chip, plan, counts, alive);
  CHECK_THAT(price.floor_us * 1e-6 * chip.clock_hz * chip.sm_count,
             Catch::Matchers::WithinRel(static_cast<double>(wavefronts) * chip.lds_wavefront_cycles, 1e-9));
  CHECK(price.floor_us < price.terms.total() - price.below_us);
}

TEST_CASE("the staged plan that is chosen is no slower than the usual one", "[feed_forward][fast]") {
  const Chip chip = find_chip("h200").chip;
  const FeedForward network = read_network("spdnn:4096x4");
  const std::vector<std::int64_t> alive{60000, 30000, 10000, 2000};
  const StagedPlan chosen = *choose_staged_plan(chip, network, alive);
  CHECK(price_us(to_string(chosen), "spdnn:4096x4", alive) <= price_us("staged", "spdnn:4096x4", alive));
  CHECK(chosen.shared_bytes() <= chip.smem_bytes_per_block);
}

TEST_CASE("a staged plan that no SM holds is refused with what it needs", "[feed_forward][fast]") {
  const StagedPlan plan = staged_plan("staged staged_bytes=300000");
  const std::vector<StagedCounts> counts = counts_of("spdnn:1024x1", plan);
  CHECK_THROWS_WITH(price_staged(find_chip("h200").chip, plan, counts, std::vector<std::int64_t>{10}),
                    Catch::Matchers::Contains("300048 bytes of shared memory"));
}
