// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/access_rows.hpp"

#include "model/base/random.hpp"
#include "model/feed_forward/structure/read_steps.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace onchip {
namespace {

using Rows = std::vector<std::vector<std::int32_t>>;

// Of whole accesses.
int steps_of(const Rows& rows, const std::vector<std::int32_t>& order, int classes) {
  int steps = 0;
  for (std::size_t first = 0; first < order.size(); first += static_cast<std::size_t>(classes)) {
    std::vector<std::span<const std::int32_t>> access;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(classes); ++i) {
      access.emplace_back(rows[static_cast<std::size_t>(order[i])]);
    }
    steps += static_cast<int>(bank_aware_reads(access, classes).input.size()) / classes;
  }
  return steps;
}

}  // namespace

TEST_CASE("rows that are put together by their classes take fewer steps, and those of any length no more", "[fast]") {
  for (const bool uneven : {false, true}) {
    for (const int classes : {8, 32}) {
      std::uint64_t next = 0;
      Rows rows(512);
      for (auto& row : rows) {
        const std::uint64_t length = uneven ? 1 + splitmix64(1, next++) % 200 : 32;
        row.resize(length);
        std::ranges::generate(row, [&] { return static_cast<std::int32_t>(splitmix64(2, next++) % 4096); });
      }
      const std::vector<std::span<const std::int32_t>> places(rows.begin(), rows.end());
      const std::vector<std::int32_t> order = order_by_access(places, classes);
      std::vector<std::int32_t> sorted = order, all(rows.size()), by_length(rows.size());
      std::iota(all.begin(), all.end(), 0);
      by_length = all;
      std::ranges::sort(sorted);
      CHECK(sorted == all);
      std::ranges::stable_sort(by_length, std::ranges::greater{},
                               [&](std::int32_t row) { return rows[static_cast<std::size_t>(row)].size(); });
      INFO(classes << " classes" << (uneven ? ", uneven" : ""));
      const int together = steps_of(rows, order, classes), before = steps_of(rows, by_length, classes);
      CHECK(together <= (uneven ? 1.01 : 0.91) * before);
      // Rows of an access whose outputs are written to the same banks.
      int conflicts = 0;
      for (std::size_t i = 0; i < order.size(); ++i) {
        const auto access = order.begin() + static_cast<std::ptrdiff_t>(i / classes * classes);
        conflicts += std::any_of(access, order.begin() + static_cast<std::ptrdiff_t>(i),
                                 [&](std::int32_t row) { return (row - order[i]) % classes == 0; });
      }
      CHECK((uneven || conflicts <= std::ssize(rows) / 8));
    }
  }
}

TEST_CASE("rows of less than an access, empty ones and none have an order", "[fast]") {
  CHECK(order_by_access({}, 8).empty());
  const Rows rows{{}, {1, 2}, {3}};
  const std::vector<std::span<const std::int32_t>> places(rows.begin(), rows.end());
  CHECK(order_by_access(places, 8).size() == 3);
  CHECK(order_by_access(places, 2) == std::vector<std::int32_t>{1, 2, 0});
}

}  // namespace onchip
