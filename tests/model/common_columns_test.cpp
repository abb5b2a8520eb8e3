// SPDX-License-Identifier: Apache-2.0
#include "model/common_columns.hpp"

#include "model/common_rows.hpp"
#include "model/dealing.hpp"
#include "model/layout.hpp"
#include "model/numeric.hpp"
#include "model/step_time.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/plans.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

using namespace onchip;

namespace {

ColumnSets random_sets(std::mt19937& random, int gates, int most) {
  ColumnSets sets{};
  for (int set = 1; set < 1 << gates; ++set) {
    sets[set] = static_cast<std::int32_t>(random() % (most + 1));
  }
  return sets;
}

int columns_of(const ColumnSets& sets, int gates, int gate) {
  int sum = 0;
  for (int set = 1; set < 1 << gates; ++set) {
    sum += set >> gate & 1 ? sets[set] : 0;
  }
  return sum;
}

}  // namespace

TEST_CASE("pairs of gates are numbered as they are listed", "[fast]") {
  for (const int gates : {1, 2, 3, 4}) {
    const std::vector<GatePair> pairs = gate_pairs(gates);
    REQUIRE(std::ssize(pairs) == number_of_pairs(gates));
    for (int i = 0; i < std::ssize(pairs); ++i) {
      CHECK(pairs[i].first < pairs[i].second);
      CHECK(pair_of(gates, pairs[i]) == i);
    }
  }
}

TEST_CASE("pairs take columns that are there, no more than they have room for, and leave none while a gate has any",
          "[fast]") {
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    const int gates = 3 + static_cast<int>(random() % 2);
    const ColumnSets sets = random_sets(random, gates, 1 + static_cast<int>(random() % 40));
    const int columns = static_cast<int>(random() % 80);
    const PairRoom room{columns, columns == 0 ? 0 : static_cast<int>(random() % (columns + 1))};
    const std::vector<Taking> takings = share_columns(sets, gates, room);
    const std::vector<GatePair> pairs = gate_pairs(gates);
    ColumnSets left = sets;
    std::array<int, 6> used{}, common{};
    for (const Taking& t : takings) {
      const int of_pair = 1 << pairs[t.pair].first | 1 << pairs[t.pair].second;
      REQUIRE((t.taken != 0 && (t.taken & ~of_pair) == 0 && (t.taken & ~t.from) == 0 && t.count > 0));
      REQUIRE(left[t.from] >= t.count);
      left[t.from] -= t.count;
      left[t.from & ~t.taken] += t.count;
      used[t.pair] += t.count;
      common[t.pair] += t.taken == of_pair ? t.count : 0;
    }
    left[0] = 0;
    const auto rest = columns_left(sets, gates, takings);
    int most_left = 0;
    for (int gate = 0; gate < gates; ++gate) {
      CHECK(rest[gate] == columns_of(left, gates, gate));
      most_left = std::max(most_left, rest[gate]);
    }
    for (std::size_t pair = 0; pair < pairs.size(); ++pair) {
      CHECK(used[pair] <= room.columns);
      CHECK(common[pair] <= room.common);
      const bool has_none = rest[pairs[pair].first] == 0 && rest[pairs[pair].second] == 0;
      CHECK((used[pair] == room.columns || has_none));
      // What two gates have in common is shared as far as there is room for it.
      const int both = 1 << pairs[pair].first | 1 << pairs[pair].second;
      int shared_by_more = 0;
      for (int set = 0; set < 1 << gates; ++set) {
        shared_by_more += (set & both) == both ? sets[set] : 0;
      }
      CHECK((common[pair] == room.common || common[pair] >= std::min(room.common, sets[both])));
      CHECK(common[pair] <= shared_by_more);
    }
  }
}

TEST_CASE("what is left to rows beside their pairs is what a layout leaves them", "[fast]") {
  for (const PlannedCase& c : every_pair()) {
    CAPTURE(c.text());
    const RowProfile all = RowProfile::from_matrix(c.matrix);
    const RowProfile& own = own_rows(c.network, c.plan, all);
    REQUIRE(own.units() == all.units());
    CHECK(own.nnz() < all.nnz());
    Layout layout = c.layout();
    std::map<std::int32_t, int> of_row;  // non-zeros in slots of the row alone
    for (int sm = 0; sm < c.plan.sms; ++sm) {
      for (int r = 0; r < c.plan.first_common(); ++r) {
        for (int thread = 0; thread < c.plan.threads; ++thread) {
          const std::int32_t row = layout.row(sm, r, group_lane_of(c.network, c.plan, thread).group);
          const std::size_t warp_row = layout.warp_row(sm, r, thread / 32);
          for (int slot = 0; row >= 0 && slot < layout.slots(warp_row); ++slot) {
            of_row[row] += layout.place[layout.entry(warp_row, slot, thread % 32)] < state_units(c.network, c.plan);
          }
        }
      }
    }
    int wrong = 0;
    for (int rank = 0; rank < own.units(); ++rank) {
      for (int place = 0; place < own.gates(); ++place) {
        wrong += of_row[own.gate(rank, place) * own.units() + own.unit(rank)] != own.length(rank, place);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a layout whose rows share loads is the matrix, with fewer slots", "[fast]") {
  for (const PlannedCase& c : every_pair()) {
    CAPTURE(c.text());
    const Layout layout = c.layout();
    CHECK(unpack(layout) == c.matrix);
    // Both values of a slot are of the same column, and some slots have both.
    int both = 0;
    for (std::size_t entry = 0; entry < layout.place.size(); ++entry) {
      both += layout.value[entry] != 0 && layout.second_value[entry] != 0;
    }
    CHECK(both > 0);
  }
  const PlannedCase without = planned_case({.cell = Cell::lstm, .hidden = 509, .batch = 16, .sms = 16, .density = 0.2});
  const PlannedCase with = with_common(without, 3);
  CHECK(100 * gather_wavefronts(with.layout()).total < 95 * gather_wavefronts(without.layout()).total);
}

TEST_CASE("the words of a pair are its values and where they are read", "[fast]") {
  for (const PlannedCase& c : every_pair()) {
    CAPTURE(c.text());
    const Layout layout = c.layout();
    const Plan& plan = c.plan;
    const Encoded encoded = encode(layout);
    const std::size_t sm_words = encoded.weights.size() / plan.sms;
    int first_word = 0;
    for (int r = 0; r < plan.first_common(); ++r) {
      first_word += row_words(c.network, plan, plan.slots_of(r));
    }
    const int shift = index_shift(c.network, plan), stride = plane_unit_bytes(c.network, plan);
    int wrong = 0;
    for (int sm = 0; sm < plan.sms; ++sm) {
      for (int thread = 0; thread < plan.threads; ++thread) {
        for (int pair = 0; pair < plan.common_rows; ++pair) {
          const int words = plan.common_slots + (plan.common_slots + 1) / 2;
          const auto word = [&](int i) {
            return encoded.weights[sm * sm_words +
                                   static_cast<std::size_t>(first_word + pair * words + i) * plan.threads + thread];
          };
          for (int s = 0; s < plan.common_slots; ++s) {
            const bool is_last_alone = s == plan.common_slots - 1 && s % 2 == 0;
            const std::uint32_t first = word(s / 2 * 3 + s % 2), seconds = word(s / 2 * 3 + (is_last_alone ? 1 : 2));
            const std::size_t entry =
                layout.entry(layout.warp_row(sm, plan.first_common() + pair, thread / 32), s, thread % 32);
            wrong += static_cast<int>((first & 0xffff) << shift) != layout.place[entry] * stride;
            wrong += first >> 16 != to_bits(c.network.precision, layout.value[entry]);
            wrong += (seconds >> (s % 2 * 16) & 0xffff) != to_bits(c.network.precision, layout.second_value[entry]);
          }
        }
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a layout of pairs does not depend on the number of threads", "[fast]") {
  const PlannedCase c = every_pair()[4];
  const Layout one = make_layout(c.network, c.plan, c.matrix, 1), many = make_layout(c.network, c.plan, c.matrix, 7);
  CHECK(one.place == many.place);
  CHECK(one.value == many.value);
  CHECK(one.second_value == many.second_value);
}

TEST_CASE("expected wavefronts of pairs are about those of layouts", "[fast]") {
  for (const int batch : {4, 16}) {
    for (const int slots : {1, 2, 4, 8}) {
      const PlannedCase c = with_common(
          planned_case({.cell = Cell::lstm, .hidden = 1024, .batch = batch, .sms = 32, .density = 0.2}), slots);
      CAPTURE(c.text());
      const double counted = static_cast<double>(gather_wavefronts(c.layout()).total) / c.plan.sms;
      const double expected = expected_wavefronts(c.network, c.plan).expected;
      CHECK(expected > 0.8 * counted);
      CHECK(expected < 1.15 * counted);
    }
  }
}
