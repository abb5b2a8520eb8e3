// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/gather_steps.hpp"

#include "model/base/random.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace onchip {
namespace {

using Rows = std::vector<std::vector<std::int32_t>>;

constexpr std::int32_t kSpare = 4096;

GatherSteps steps_of(const Rows& rows, int classes = 8, double step_wavefronts = 0) {
  return gather_steps(std::vector<std::span<const std::int32_t>>(rows.begin(), rows.end()), kSpare, classes,
                      step_wavefronts);
}

struct Bounds {
  int longest = 0, busiest = 0;
};
// The longest row, and the most entries of one class in one access, or the most distinct places of one.
Bounds bounds_of(const Rows& rows, int classes, bool distinct) {
  Bounds bounds;
  for (std::size_t first = 0; first < rows.size(); first += static_cast<std::size_t>(classes)) {
    std::vector<std::vector<std::int32_t>> of_class(static_cast<std::size_t>(classes));
    for (std::size_t r = first; r < first + static_cast<std::size_t>(classes); ++r) {
      bounds.longest = std::max(bounds.longest, static_cast<int>(rows[r].size()));
      for (const std::int32_t place : rows[r]) {
        std::vector<std::int32_t>& of = of_class[static_cast<std::size_t>(place % classes)];
        if (!distinct || std::ranges::find(of, place) == of.end()) {
          of.push_back(place);
        }
        bounds.busiest = std::max(bounds.busiest, static_cast<int>(of.size()));
      }
    }
  }
  return bounds;
}

// "", or what is wrong.
std::string wrong(const Rows& rows, const GatherSteps& steps, int classes) {
  std::vector<std::set<std::int32_t>> left(rows.size());
  std::int64_t entries = 0, conflicts = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    entries += std::ssize(rows[r]);
    for (std::int32_t i = 0; i < std::ssize(rows[r]); ++i) {
      left[r].insert(i);
    }
  }
  for (std::size_t at = 0; at < steps.entry.size(); at += static_cast<std::size_t>(classes)) {
    std::map<std::int32_t, std::set<std::int32_t>> of_access;  // by class
    for (std::size_t i = at; i < at + static_cast<std::size_t>(classes); ++i) {
      const std::size_t r = i % rows.size();
      of_access[steps.place[i] % classes].insert(steps.place[i]);
      if (steps.entry[i] == kBubble ? steps.place[i] < kSpare || steps.place[i] >= kSpare + classes
                                    : left[r].erase(steps.entry[i]) == 0 ||
                                          steps.place[i] != rows[r][static_cast<std::size_t>(steps.entry[i])]) {
        return "step " + std::to_string(i / rows.size()) + ", row " + std::to_string(r);
      }
    }
    std::size_t most = 1;
    for (const auto& [of_class, places] : of_access) {
      most = std::max(most, places.size());
    }
    conflicts += static_cast<std::int64_t>(most) - 1;
  }
  return !std::ranges::all_of(left, [](const auto& of_row) { return of_row.empty(); }) ? "entries are left"
         : steps.conflicts != conflicts || steps.entries != entries ||
                 steps.bubbles() != std::int64_t{steps.steps} * std::ssize(rows) - entries
             ? std::to_string(steps.conflicts) + " conflicts instead of " + std::to_string(conflicts)
             : "";
}

}  // namespace

TEST_CASE("gathers of random rows take the fewest steps without a conflict, or fewer with some", "[fast]") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    std::uint64_t next = 0;
    const auto draw = [&](std::uint64_t below) { return static_cast<std::int32_t>(splitmix64(seed, next++) % below); };
    const int classes = seed % 3 == 0 ? 4 : 8;
    Rows rows(static_cast<std::size_t>(classes * (1 + draw(3))));
    const std::uint64_t most = 1 + static_cast<std::uint64_t>(draw(40)), places = seed % 5 == 0 ? 20 : kSpare;
    for (auto& row : rows) {
      row.resize(static_cast<std::size_t>(draw(10) == 0 ? draw(10 * most) : draw(most)));
      std::ranges::generate(row, [&] { return draw(places); });
    }
    INFO("seed " << seed);
    const GatherSteps free = steps_of(rows, classes);
    const Bounds bounds = bounds_of(rows, classes, false), distinct = bounds_of(rows, classes, true);
    CHECK(wrong(rows, free, classes) == "");
    CHECK(free.conflicts == 0);
    CHECK(free.steps <= std::max(bounds.longest, bounds.busiest));
    CHECK(free.steps >= std::max(distinct.longest, distinct.busiest));
    // Where a step costs more than all conflicts, as few steps as the longest row has entries.
    const GatherSteps few = steps_of(rows, classes, 1e9);
    CHECK(wrong(rows, few, classes) == "");
    CHECK(few.steps == bounds.longest);
    const GatherSteps between = steps_of(rows, classes, 3);
    CHECK(wrong(rows, between, classes) == "");
    const auto cost = [](const GatherSteps& steps) { return 3 * steps.steps + steps.conflicts; };
    CHECK(cost(between) <= cost(free));
  }
}

TEST_CASE("gathers of rows that are empty, alone, or all of one class", "[fast]") {
  CHECK(steps_of(Rows(16)).steps == 0);
  CHECK(steps_of({}).steps == 0);
  Rows one(16);
  one[11] = {5, 6, 7};
  const GatherSteps alone = steps_of(one);
  CHECK(wrong(one, alone, 8) == "");
  CHECK(alone.steps == 3);
  CHECK(alone.bubbles() == 3 * 16 - 3);
  CHECK(steps_of(Rows{{1, 2}, {9}}).steps == 2);    // fewer rows than an access has
  Rows same(16, std::vector<std::int32_t>{8, 16});  // 16 entries of class 0 in each access
  CHECK(wrong(same, steps_of(same), 8) == "");
  CHECK(steps_of(same).steps == 2);  // two places, which all rows read together
  Rows different(16);
  for (std::int32_t r = 0; r < 16; ++r) {
    different[static_cast<std::size_t>(r)] = {16 * r, 16 * r + 8};
  }
  CHECK(steps_of(different).steps == 16);
  CHECK(steps_of(different, 8, 100).steps == 2);
  CHECK(steps_of(different, 8, 100).conflicts == 4 * 7);
}

}  // namespace onchip
