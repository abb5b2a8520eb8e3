// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/row_splits.hpp"

#include "model/banks/bank_rule.hpp"
#include "model/sparse/row_assignment.hpp"
#include "model/base/error.hpp"
#include "model/plan/layout.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/plans.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <vector>

using namespace onchip;

namespace {

PlannedCase uneven(Cell cell, int hidden, int lanes) {
  return planned_case({.cell = cell,
                       .hidden = hidden,
                       .batch = 4,
                       .sms = 9,
                       .lanes = lanes,
                       .units_per_group = 2,
                       .density = 0.15,
                       .mask = MaskKind::power_law});
}

// The matrix; where slots without a non-zero multiply units of the state, without its zeros.
SparseMatrix stored(const PlannedCase& c) {
  if (c.plan.storage == Storage::packed_pair) {
    return c.matrix;
  }
  SparseMatrix left{c.matrix.rows, c.matrix.columns, {0}, {}, {}};
  for (int row = 0; row < c.matrix.rows; ++row) {
    for (std::int64_t e = c.matrix.row_begin[row]; e < c.matrix.row_begin[row + 1]; ++e) {
      if (c.matrix.value[e] != 0) {
        left.column.push_back(c.matrix.column[e]);
        left.value.push_back(c.matrix.value[e]);
      }
    }
    left.row_begin.push_back(left.nnz());
  }
  return left;
}

int slots_of_group(const Cut& cut) {
  return std::accumulate(cut.slots.begin(), cut.slots.end(), cut.pieces * cut.piece_slots);
}

}  // namespace

TEST_CASE("rows that are cut need fewer slots, and their SMs have room for all pieces", "[fast]") {
  const PlannedCase c = uneven(GENERATE(Cell::relu, Cell::gru), 509, GENERATE(8, 32));
  const RowProfile rows = RowProfile::from_matrix(c.matrix);
  const std::vector<Cut> cuts = cut_rows(c.network, c.plan, rows);
  REQUIRE(!cuts.empty());
  for (const Cut& cut : cuts) {
    Plan plan = c.plan;
    plan.slots = cut.slots;
    plan.pieces = cut.pieces;
    plan.piece_slots = cut.piece_slots;
    CAPTURE(to_string(plan));
    CHECK(slots_of_group(cut) < c.plan.slots_total());
    const std::vector<std::int32_t> ranks = deal_units(c.network, plan, rows);
    CHECK(most_pieces(c.network, plan, rows, ranks) <= plan.pieces * plan.groups());
    int most = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const int in_sm = static_cast<int>(i) % units_per_sm(c.network, plan);
      if (ranks[i] >= 0) {
        for (int at = 0; at < rows.gates(); ++at) {
          const int r = in_sm / plan.groups() * rows.gates() + at;
          most = std::max(most, pieces_of_row(c.network, plan, r, rows.length(ranks[i], at)));
        }
      }
    }
    CHECK(cut.most_pieces == most);
  }
}

TEST_CASE("a layout of cut rows is the matrix, and a row's pieces are numbered one after another", "[fast]") {
  for (const PlannedCase& c : every_cut()) {
    CAPTURE(c.text());
    const Layout layout = c.layout();
    CHECK(unpack(layout) == stored(c));
    const std::vector<std::int32_t> table = pieces_of_rows(layout), places = row_places(layout);
    int cut = 0;
    for (int sm = 0; sm < c.plan.sms; ++sm) {
      std::map<std::int32_t, std::vector<int>> of_row;
      for (int number = 0; number < c.plan.pieces * c.plan.groups(); ++number) {
        const std::int32_t row =
            layout.row(sm, c.plan.rows_per_group + number / c.plan.groups(), number % c.plan.groups());
        if (row >= 0) {
          of_row[row].push_back(number);
        }
      }
      for (const auto& [row, numbers] : of_row) {
        CHECK(table[places[row]] == (numbers.front() | static_cast<std::int32_t>(numbers.size()) << 16));
        CHECK(numbers.back() - numbers.front() + 1 == static_cast<int>(numbers.size()));
        cut += static_cast<int>(numbers.size());
      }
    }
    CHECK(cut ==
          std::accumulate(table.begin(), table.end(), 0, [](int sum, int entry) { return sum + (entry >> 16); }));
    CHECK(cut > 0);
  }
}

TEST_CASE("pieces that an SM's groups do not take are refused", "[fast]") {
  PlannedCase c = in_pieces(uneven(Cell::relu, 509, 8), 1);
  REQUIRE(c.plan.pieces == 1);
  CHECK_NOTHROW(c.layout());
  --c.plan.slots[0];
  --c.plan.piece_slots;
  CHECK_THROWS_AS(c.layout(), InputError);
}

TEST_CASE("pieces, whose slots are full, take hardly more wavefronts than slots: each has its share of every bank",
          "[fast]") {
  const PlannedCase c = in_pieces(uneven(Cell::relu, 1021, 16), 1);
  REQUIRE(c.plan.pieces == 1);
  const Wavefronts wavefronts = gather_wavefronts(c.layout());
  CHECK(static_cast<double>(wavefronts.total) < 1.15 * static_cast<double>(wavefronts.ideal));
  Plan natural = c.plan;
  natural.order = RowOrder::natural;
  CHECK(gather_wavefronts(make_layout(c.network, natural, c.matrix)).total > wavefronts.total);
}

TEST_CASE("conflicts that meet in few loads take fewer wavefronts, nearly as few as the fullest banks need", "[fast]") {
  const PlannedCase c = in_pieces(uneven(GENERATE(Cell::relu, Cell::gru), 1021, GENERATE(8, 16)), 2);
  Plan merged = c.plan;
  merged.order = RowOrder::bank_merged;
  merged.pieces = merged.piece_slots = merged.most_pieces = 0;
  merged.slots.fill(0);
  give_slots(c.network, RowProfile::from_matrix(c.matrix), merged);
  for (int& slots : merged.slots) {
    slots = (3 * slots + 3) / 4;  // hardly a slot to spare
  }
  merged = with_tail(c.network, merged, RowProfile::from_matrix(c.matrix), 1);
  Plan aware = merged;
  aware.order = RowOrder::bank_aware;
  const Layout layout = make_layout(c.network, merged, c.matrix);
  CHECK(unpack(layout) == c.matrix);
  const std::int64_t before = gather_wavefronts(make_layout(c.network, aware, c.matrix)).total;
  const std::int64_t after = gather_wavefronts(layout).total;
  CHECK(after < before);
  // Of each warp's row no phase order has fewer wavefronts than its fullest set of banks has non-zeros.
  const BankRule rule(c.network, merged);
  std::int64_t least = 0;
  for (std::size_t row = 0; row + 1 < layout.first.size(); ++row) {
    std::array<std::int64_t, kMaxBankSets> hits{};
    for (std::size_t i = layout.first[row] * 32; i < static_cast<std::size_t>(layout.first[row + 1]) * 32; ++i) {
      hits[rule.set_of(layout.place[i])] += layout.place[i] < state_units(c.network, merged);
    }
    least += std::max<std::int64_t>(*std::max_element(hits.begin(), hits.end()),
                                    layout.slots(row) * (32 / rule.phase_lanes));
  }
  CHECK(static_cast<double>(after) < 1.05 * static_cast<double>(least));
}

TEST_CASE("SMs have about as many pieces of rows where units are dealt by what is beyond the rows' room", "[fast]") {
  PlannedCase c = uneven(GENERATE(Cell::relu, Cell::gru), 509, GENERATE(8, 32));
  const RowProfile rows = RowProfile::from_matrix(c.matrix);
  std::array<int, 2> fewest{};
  for (const RowOrder order : {RowOrder::bank_aware, RowOrder::bank_merged}) {
    c.plan.order = order;
    int& slots = fewest[order == RowOrder::bank_merged];
    for (const Cut& cut : cut_rows(c.network, c.plan, rows)) {
      slots = slots == 0 ? slots_of_group(cut) : std::min(slots, slots_of_group(cut));
    }
  }
  CHECK(fewest[1] <= fewest[0]);
}

TEST_CASE("shared memory has room for the sums of pieces", "[fast]") {
  for (const PlannedCase& c : every_cut()) {
    Plan whole = c.plan;
    whole.pieces = 0;
    CHECK(shared_bytes(c.network, c.plan) - shared_bytes(c.network, whole) >=
          4 * c.plan.pieces * c.plan.groups() * c.plan.batch_padded);
  }
}
