// SPDX-License-Identifier: Apache-2.0
// Tiles without their empty words: what they take, and how they share out the banks. What the kernel reads of them is
// multiplied in fragments_test.cpp.
#include "model/dense/bitmap.hpp"

#include "model/dense/family.hpp"
#include "model/dense/fragments.hpp"
#include "model/dense/layout.hpp"
#include "model/plan/plan_text.hpp"
#include "tests/catch.hpp"
#include "tests/matrices.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <tuple>
#include <vector>

using namespace onchip;

namespace {

DensePlan bitmap_plan(const Recurrent& network, int sms, int threads, double share_in_shared) {
  DensePlan plan = shape_dense_plan(network, sms, threads, 1, Storage::bitmap);
  plan.shared_tiles = static_cast<int>(share_in_shared * DenseGeometry(network, plan).warp_tiles);
  return plan;
}

// What expected_bank_words() says, tile by tile.
int counted_bank_words(const DenseGeometry& geometry, double density) {
  const double share = 1 - (1 - density) * (1 - density), deviation = std::sqrt(share * (1 - share));
  double words = 0, of_warp = 0;
  for (int tile = 0; tile < geometry.warp_tiles; ++tile) {
    if (is_in_shared(tile, geometry.shared_tiles, geometry.warp_tiles)) {
      const int span = tile / (2 * geometry.row_tiles), row = tile % geometry.row_tiles * 16;
      const double of_tile = 8.0 * std::min(16, geometry.units_per_sm * geometry.gates - row);
      const int more = span < geometry.spans % geometry.warp_spans ? 1 : 0;
      words += (geometry.spans / geometry.warp_spans + more) * of_tile;
      of_warp += of_tile;
    }
  }
  const double longest = kLaneWords * geometry.shared_tiles;
  const double fullest = (share * words + 7 * deviation * std::sqrt(words)) / kWarp +
                         4 * deviation * std::sqrt(longest) + share * (longest - of_warp / kWarp) + 1;
  return static_cast<int>(std::ceil(std::min(fullest, longest * geometry.warps())));
}

}  // namespace

TEST_CASE("streams lie below each other, a warp's in different banks, and leave the banks about equally full",
          "[fast]") {
  std::mt19937 random(3);
  for (const int warps : {1, 2, 8, 12}) {
    for (const int longest : {0, 1, 60, 400}) {
      std::vector<int> lengths(static_cast<std::size_t>(warps) * 32);
      for (int& length : lengths) {
        length = static_cast<int>(random() % static_cast<unsigned>(longest + 1));
      }
      std::vector<std::uint32_t> begins(lengths.size());
      const int fullest = assign_streams(lengths, begins);
      std::set<std::uint32_t> taken;
      int last = 0;
      for (int warp = 0; warp < warps; ++warp) {
        std::set<std::uint32_t> banks;
        for (int lane = 0; lane < 32; ++lane) {
          const std::size_t i = static_cast<std::size_t>(warp) * 32 + lane;
          REQUIRE(begins[i] % 4 == 0);
          REQUIRE(banks.insert(begins[i] / 4 % 32).second);
          for (int word = 0; word < lengths[i]; ++word) {
            REQUIRE(taken.insert(begins[i] / 4 + 32 * static_cast<std::uint32_t>(word)).second);
          }
          last = std::max(last, lengths[i] > 0 ? static_cast<int>(begins[i] / 128) + lengths[i] : 0);
        }
      }
      CHECK(last == fullest);
      // No bank is fuller than the emptiest by more than the longest stream.
      const int all = std::accumulate(lengths.begin(), lengths.end(), 0);
      CHECK(fullest * 32 <= all + 32 * longest);
      CHECK(fullest * 32 >= all);
    }
  }
}

TEST_CASE("what is expected of uniform masks has room for all that are drawn, and little more", "[fast]") {
  for (const auto& [cell, hidden, sms, threads] : {std::tuple{Cell::lstm, 500, 25, 256},
                                                   {Cell::relu, 1003, 17, 128},
                                                   {Cell::gru, 301, 8, 96},
                                                   {Cell::relu, 1500, 30, 512},
                                                   {Cell::relu, 40, 3, 32}}) {
    for (const double density : {0.005, 0.05, 0.2, 0.5, 1.0}) {
      const Recurrent network{cell, Precision::fp16, hidden, 8, 1, density};
      for (const double in_shared : {0.0, 0.02, 0.5, 1.0}) {
        const DensePlan plan = bitmap_plan(network, sms, threads, in_shared);
        CAPTURE(describe(network), plan_text(plan));
        const int expected = expected_bank_words(DenseGeometry(network, plan), 1 - (1 - density) * (1 - density));
        CHECK(expected <= 4 * plan.shared_tiles * plan.warps());
        CHECK(expected == counted_bank_words(DenseGeometry(network, plan), density));
        for (const std::uint64_t seed : {1, 2}) {
          const SparseMatrix mask = generate_mask(network.rows(), hidden, density, seed, Precision::fp16);
          const int needed = needed_bank_words(DenseGeometry(network, plan), word_mask(mask));
          CHECK(needed <= expected);
          if (needed > 100) {
            CHECK(expected < 1.5 * needed);
          }
        }
      }
    }
  }
}

TEST_CASE("a mask with more words than a bitmap plan has room for is refused with what it needs", "[fast]") {
  const Recurrent network{Cell::relu, Precision::fp16, 128, 3, 1, 0.1};
  DensePlan plan = bitmap_plan(network, 4, 64, 0.5);
  plan.bank_words = expected_bank_words(DenseGeometry(network, plan), 0.19);
  const SparseMatrix uniform = generate_mask(128, 128, 0.1, 1, Precision::fp16);
  CHECK_NOTHROW(make_layout(DenseGeometry(network, plan), uniform));
  std::vector<int> lengths(128);
  std::fill(lengths.begin() + 16, lengths.begin() + 29, 128);
  const SparseMatrix crowded = rows_of_lengths(128, lengths);  // as many, all of one SM's tiles in shared memory
  const int needed = needed_bank_words(DenseGeometry(network, plan), word_mask(crowded));
  CHECK(needed > plan.bank_words);
  CHECK_THROWS_WITH(make_layout(DenseGeometry(network, plan), crowded),
                    Catch::Matchers::Contains("needs bank_words=" + std::to_string(needed)));
  plan.bank_words = needed;
  CHECK(unpack(make_layout(DenseGeometry(network, plan), crowded)) == crowded);
  plan.bank_words = needed - 1;
  CHECK_THROWS_WITH(make_layout(DenseGeometry(network, plan), crowded), Catch::Matchers::Contains("room for "));
}
