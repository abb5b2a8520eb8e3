// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/search/row_splits.hpp"

#include "model/banks/bank_rule.hpp"
#include "model/base/error.hpp"
#include "model/sparse/row_assignment.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/plans.hpp"
#include "tests/matrices.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <vector>

using namespace onchip;

namespace {

SparseCase uneven(Cell cell, int hidden, int lanes) {
  return sparse_case({.cell = cell,
                      .hidden = hidden,
                      .batch = 4,
                      .sms = 9,
                      .lanes = lanes,
                      .density = 0.15,
                      .mask = MaskKind::power_law});
}

SparseLayout layout_of(const SparseCase& c) {
  return make_layout(c.geometry(), c.matrix);
}

// The matrix; where slots without a non-zero multiply units of the state, without its zeros.
SparseMatrix stored(const SparseCase& c) {
  return c.plan.storage == Storage::packed_pair ? c.matrix : without_zeros(c.matrix);
}

int slots_of_group(const SplitChoice& choice) {
  return std::accumulate(choice.slots.begin(), choice.slots.end(), choice.row_splits * choice.split_slots);
}

}  // namespace

TEST_CASE("rows that are split need fewer slots, and their SMs have room for all splits", "[fast]") {
  const SparseCase c = uneven(GENERATE(Cell::relu, Cell::gru), 509, GENERATE(8, 32));
  const RowProfile rows = RowProfile::from_matrix(c.matrix);
  const std::vector<SplitChoice> choices = split_choices(c.network, c.plan, rows);
  REQUIRE(!choices.empty());
  for (const SplitChoice& choice : choices) {
    SparsePlan plan = c.plan;
    plan.slots = choice.slots;
    plan.row_splits = choice.row_splits;
    plan.split_slots = choice.split_slots;
    CAPTURE(to_string(plan));
    CHECK(slots_of_group(choice) < c.plan.slots_total());
    const SparseGeometry geometry(c.network, plan);
    const std::vector<std::int32_t> ranks = assign_units(geometry, rows);
    CHECK(most_splits(geometry, rows, ranks) <= plan.row_splits * plan.groups());
    int most = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const int in_sm = static_cast<int>(i) % geometry.units_per_sm;
      if (ranks[i] >= 0) {
        for (int at = 0; at < rows.gates(); ++at) {
          const int r = in_sm / plan.groups() * rows.gates() + at;
          most = std::max(most, splits_of_row(geometry, r, rows.length(ranks[i], at)));
        }
      }
    }
    CHECK(choice.most_splits == most);
  }
}

TEST_CASE("a layout of split rows is the matrix, and a row's splits are numbered one after another", "[fast]") {
  for (const SparseCase& c : every_split()) {
    CAPTURE(describe(c.network), to_string(c.plan));
    const SparseLayout layout = layout_of(c);
    CHECK(unpack(layout) == stored(c));
    const std::vector<std::int32_t> table = splits_of_rows(layout), places = row_places(layout);
    int found = 0;
    for (int sm = 0; sm < c.plan.sms; ++sm) {
      std::map<std::int32_t, std::vector<int>> of_row;
      for (int number = 0; number < c.plan.row_splits * c.plan.groups(); ++number) {
        const std::int32_t row =
            layout.row(sm, c.plan.rows_per_group + number / c.plan.groups(), number % c.plan.groups());
        if (row >= 0) {
          of_row[row].push_back(number);
        }
      }
      for (const auto& [row, numbers] : of_row) {
        CHECK(table[places[row]] == (numbers.front() | static_cast<std::int32_t>(numbers.size()) << 16));
        CHECK(numbers.back() - numbers.front() + 1 == static_cast<int>(numbers.size()));
        found += static_cast<int>(numbers.size());
      }
    }
    CHECK(found ==
          std::accumulate(table.begin(), table.end(), 0, [](int sum, int entry) { return sum + (entry >> 16); }));
    CHECK(found > 0);
  }
}

TEST_CASE("splits that an SM's groups do not take are refused", "[fast]") {
  SparseCase c = in_splits(uneven(Cell::relu, 509, 8), 1);
  REQUIRE(c.plan.row_splits == 1);
  CHECK_NOTHROW(layout_of(c));
  --c.plan.slots[0];
  --c.plan.split_slots;
  CHECK_THROWS_AS(layout_of(c), InputError);
}

TEST_CASE("splits, whose slots are full, take hardly more wavefronts than slots: each has its share of every bank",
          "[fast]") {
  const SparseCase c = in_splits(uneven(Cell::relu, 1021, 16), 1);
  REQUIRE(c.plan.row_splits == 1);
  const Wavefronts wavefronts = gather_wavefronts(layout_of(c));
  CHECK(static_cast<double>(wavefronts.total) < 1.15 * static_cast<double>(wavefronts.ideal));
  SparsePlan natural = c.plan;
  natural.order = RowOrder::natural;
  CHECK(gather_wavefronts(make_layout(SparseGeometry(c.network, natural), c.matrix)).total > wavefronts.total);
}

TEST_CASE("conflicts that meet in few loads take fewer wavefronts, nearly as few as the fullest banks need", "[fast]") {
  const SparseCase c = in_splits(uneven(GENERATE(Cell::relu, Cell::gru), 1021, GENERATE(8, 16)), 2);
  SparsePlan merged = c.plan;
  merged.order = RowOrder::bank_merged;
  merged.row_splits = merged.split_slots = merged.most_splits = 0;
  merged.slots.fill(0);
  give_slots(c.network, RowProfile::from_matrix(c.matrix), merged);
  for (int& slots : merged.slots) {
    slots = (3 * slots + 3) / 4;  // hardly a slot to spare
  }
  merged = with_overflow(c.network, merged, RowProfile::from_matrix(c.matrix), 1);
  SparsePlan aware = merged;
  aware.order = RowOrder::bank_aware;
  const SparseLayout layout = make_layout(SparseGeometry(c.network, merged), c.matrix);
  CHECK(unpack(layout) == c.matrix);
  const std::int64_t before = gather_wavefronts(make_layout(SparseGeometry(c.network, aware), c.matrix)).total;
  const std::int64_t after = gather_wavefronts(layout).total;
  CHECK(after < before);
  // Of each warp's row no phase order has fewer wavefronts than its fullest set of banks has non-zeros.
  const BankRule rule(layout.geometry.plane_unit_bytes);
  std::int64_t least = 0;
  for (std::size_t row = 0; row + 1 < layout.first.size(); ++row) {
    std::array<std::int64_t, kMaxBankSets> hits{};
    for (std::size_t i = layout.first[row] * 32; i < static_cast<std::size_t>(layout.first[row + 1]) * 32; ++i) {
      hits[rule.set_of(layout.place[i])] += layout.place[i] < layout.geometry.state_units;
    }
    least += std::max<std::int64_t>(*std::max_element(hits.begin(), hits.end()),
                                    layout.slots(row) * (32 / rule.phase_lanes));
  }
  CHECK(static_cast<double>(after) < 1.05 * static_cast<double>(least));
}

TEST_CASE("groups need no more slots where units are assigned by their splits", "[fast]") {
  SparseCase c = uneven(GENERATE(Cell::relu, Cell::gru), 509, GENERATE(8, 32));
  const RowProfile rows = RowProfile::from_matrix(c.matrix);
  std::array<int, 2> fewest{};
  for (const RowOrder order : {RowOrder::bank_aware, RowOrder::bank_merged}) {
    c.plan.order = order;
    int& slots = fewest[order == RowOrder::bank_merged];
    for (const SplitChoice& choice : split_choices(c.network, c.plan, rows)) {
      slots = slots == 0 ? slots_of_group(choice) : std::min(slots, slots_of_group(choice));
    }
  }
  CHECK(fewest[1] <= fewest[0]);
}
