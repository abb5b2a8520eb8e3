// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/read_steps.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace onchip {
namespace {

using Rows = std::vector<std::vector<std::int32_t>>;

Rows random_rows(int rows, int most, int places, std::mt19937& random) {
  Rows made(rows);
  for (std::vector<std::int32_t>& row : made) {
    std::set<std::int32_t> drawn;
    for (int i = static_cast<int>(random() % (most + 1)); i > 0; --i) {
      drawn.insert(static_cast<std::int32_t>(random() % places));
    }
    row.assign(drawn.begin(), drawn.end());
  }
  return made;
}

OrderedReads reads_of(const Rows& rows, int classes, const PlaceCopies& copies) {
  return ordered_reads(std::vector<std::span<const std::int32_t>>(rows.begin(), rows.end()), classes, copies);
}

}  // namespace

TEST_CASE("rows read each input once and in order, without a bank conflict, at one of its places", "[fast]") {
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    const int classes = 1 << random() % 6, count = 1 + static_cast<int>(random() % classes), places = 32 * 8;
    const Rows rows = random_rows(count, 40, places, random);
    const PlaceCopies copies{classes == 1 ? 0 : static_cast<std::int32_t>(random() % (places / classes + 1)), places};
    const OrderedReads reads = reads_of(rows, classes, copies);
    REQUIRE(reads.input.size() == reads.place.size());
    std::vector<std::int32_t> next(count, 0);
    for (std::size_t step = 0; step < reads.input.size() / count; ++step) {
      std::map<std::int32_t, std::int32_t> of_class;
      for (int r = 0; r < count; ++r) {
        const std::int32_t input = reads.input[step * count + r], place = reads.place[step * count + r];
        if (input == kNoRead) {
          continue;
        }
        REQUIRE(input == next[r]++);
        const std::int32_t own = rows[r][input];
        REQUIRE((place == own || (copies.has(own, classes) && place == copies.second(own, classes))));
        REQUIRE(of_class.try_emplace(place % classes, place).first->second == place);
      }
      REQUIRE(!of_class.empty());
    }
    for (int r = 0; r < count; ++r) {
      REQUIRE(next[r] == std::ssize(rows[r]));
    }
  }
}

TEST_CASE("rows read in any order take the fewest steps without a bank conflict", "[fast]") {
  std::mt19937 random(3);
  for (int i = 0; i < 400; ++i) {
    const int classes = 1 << random() % 6, count = 1 + static_cast<int>(random() % classes);
    const Rows rows = random_rows(count, 1 + static_cast<int>(random() % 40), i % 5 == 0 ? 20 : 4096, random);
    const OrderedReads reads =
        bank_aware_reads(std::vector<std::span<const std::int32_t>>(rows.begin(), rows.end()), classes);
    // The longest row; of the busiest class its inputs, and those of them that differ.
    std::size_t longest = 0, inputs = 0, places = 0;
    std::map<std::int32_t, std::multiset<std::int32_t>> of_class;
    for (const auto& row : rows) {
      longest = std::max(longest, row.size());
      for (const std::int32_t place : row) {
        of_class[place % classes].insert(place);
      }
    }
    for (const auto& [number, all] : of_class) {
      inputs = std::max(inputs, all.size());
      places = std::max(places, std::set(all.begin(), all.end()).size());
    }
    const std::size_t steps = reads.input.size() / count;
    CHECK(steps <= std::max(longest, inputs));
    CHECK(steps >= std::max(longest, places));
    std::vector<std::set<std::int32_t>> read(count);
    for (std::size_t step = 0; step < steps; ++step) {
      std::map<std::int32_t, std::int32_t> place_of_class;
      for (int r = 0; r < count; ++r) {
        if (const std::int32_t input = reads.input[step * count + r]; input != kNoRead) {
          const std::int32_t place = reads.place[step * count + r];
          REQUIRE(read[r].insert(input).second);
          REQUIRE(place == rows[r][input]);
          REQUIRE(place_of_class.try_emplace(place % classes, place).first->second == place);
        }
      }
    }
    for (int r = 0; r < count; ++r) {
      REQUIRE(read[r].size() == rows[r].size());
    }
  }
}

TEST_CASE("second places lie behind the zeros, each once, and two rows that have them never wait", "[fast]") {
  constexpr int kPlaces = 64, kClasses = 4;
  for (const int blocks : {0, 1, 7, 16}) {
    const PlaceCopies copies{blocks, kPlaces};
    std::set<std::int32_t> seconds;
    for (std::int32_t place = 0; place < kPlaces; ++place) {
      if (copies.has(place, kClasses)) {
        CHECK(copies.second(place, kClasses) % kClasses == (place + 1) % kClasses);
        seconds.insert(copies.second(place, kClasses));
      }
    }
    CHECK(std::ssize(seconds) == blocks * kClasses);
    CHECK((blocks == 0 || (*seconds.begin() == kPlaces + kClasses &&
                           *seconds.rbegin() == kPlaces + kClasses + blocks * kClasses - 1)));
  }
  std::mt19937 random(2);
  for (int i = 0; i < 100; ++i) {
    const Rows rows = random_rows(2, 40, kPlaces, random);
    const std::size_t longest = std::max(rows[0].size(), rows[1].size());
    CHECK(reads_of(rows, 2, {kPlaces / 2, kPlaces}).input.size() == 2 * longest);
    CHECK(reads_of(rows, 2, {}).input.size() >= 2 * longest);
  }
}

}  // namespace onchip
