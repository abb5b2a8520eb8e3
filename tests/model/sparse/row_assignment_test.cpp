// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/row_assignment.hpp"

#include "tests/catch.hpp"
#include "tests/model/cases.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

using namespace onchip;

namespace {

constexpr auto fp16 = Precision::fp16;
constexpr auto packed = Storage::packed_pair;
constexpr auto aware = RowOrder::bank_aware;

std::vector<std::int64_t> non_zeros_per_sm(const SparseGeometry& geometry, const RowProfile& rows) {
  const std::vector<std::int32_t> ranks = assign_units(geometry, rows);
  const std::size_t units = geometry.units_per_sm;
  std::vector<std::int64_t> load(geometry.sms, 0);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (int place = 0; ranks[i] >= 0 && place < rows.gates(); ++place) {
      load[i / units] += rows.length(ranks[i], place);
    }
  }
  return load;
}

// What a layout has beyond the plan's slots, counted.
Overflow overflow_in(const SparseLayout& layout) {
  const SparseGeometry& geometry = layout.geometry;
  const int per_chunk = geometry.chunk_slots;
  std::vector<int> of_sm(geometry.sms, 0), of_warp(static_cast<std::size_t>(geometry.sms) * geometry.warps(), 0);
  for_each_warp_row(geometry, [&](int sm, int r, int warp) {
    const int beyond = layout.slots(layout.warp_row(sm, r, warp)) - geometry.slots[r];
    REQUIRE(beyond % per_chunk == 0);
    of_sm[sm] += beyond / per_chunk;
    of_warp[static_cast<std::size_t>(sm) * geometry.warps() + warp] += beyond / per_chunk;
  });
  return {static_cast<double>(std::accumulate(of_sm.begin(), of_sm.end(), 0)) / geometry.sms,
          *std::max_element(of_sm.begin(), of_sm.end()), *std::max_element(of_warp.begin(), of_warp.end())};
}

}  // namespace

TEST_CASE("every SM has about the same number of non-zeros, as rows are assigned and as banks exchange them",
          "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const Rows kind = GENERATE(Rows::uniform, Rows::power_law);
  const int gates = info(cell).gates;
  const int hidden = gates == 1 ? 2048 : 1021;  // 1021 units make 31 or 32 for an SM
  const Case c{cell, fp16, hidden, 4, 0.1, packed, aware, 32, 16, 4 * gates, kind};
  const SparseMatrix matrix = matrix_of(c);
  const SparseLayout layout = layout_of(c, matrix);
  std::vector<std::int64_t> exchanged(c.sms, 0);
  for (std::size_t i = 0; i < layout.rows.size(); ++i) {
    exchanged[i * c.sms / layout.rows.size()] += layout.rows[i] < 0 ? 0 : length(matrix, layout.rows[i]);
  }
  for (const auto& load : {non_zeros_per_sm(layout.geometry, RowProfile::from_matrix(matrix)), exchanged}) {
    const auto [least, most] = std::minmax_element(load.begin(), load.end());
    CAPTURE(gates, *least, *most);
    CHECK(static_cast<double>(*most) < 1.1 * static_cast<double>(*least));
  }
}

TEST_CASE("where there is room to give an SM with long rows fewer of them, the busiest is within 2 % of the mean",
          "[fast]") {
  const Case c{Cell::relu, fp16, 1500, 4, 0.1, packed, aware, 64, 16, 2, Rows::power_law};
  const SparseMatrix matrix = matrix_of(c);
  const SparseGeometry geometry = geometry_of(c, matrix);
  REQUIRE(geometry.state_units == 1536);
  const std::vector<std::int64_t> load = non_zeros_per_sm(geometry, RowProfile::from_matrix(matrix));
  const double mean = static_cast<double>(matrix.nnz()) / c.sms;
  CHECK(static_cast<double>(*std::max_element(load.begin(), load.end())) < 1.02 * mean);
}

TEST_CASE("the longest rows do not all lie in the same warps", "[fast]") {
  // Of two full classes the second goes the other way: the first warp's groups have the longest of one, the shortest of
  // the other.
  const Case c{Cell::relu, fp16, 1024, 4, 0.1, packed, aware, 8, 8, 2, Rows::power_law};
  const SparseMatrix matrix = matrix_of(c);
  const SparseGeometry geometry = geometry_of(c, matrix);
  const RowProfile rows = RowProfile::from_matrix(matrix);
  const std::vector<std::int32_t> ranks = assign_units(geometry, rows);
  const int groups = geometry.groups();
  REQUIRE(geometry.units_per_sm == 2 * groups);
  std::vector<int> of_group(groups);
  for (int group = 0; group < groups; ++group) {
    of_group[group] = rows.length(ranks[group], 0) + rows.length(ranks[groups + group], 0);
  }
  const int first_alone = rows.length(ranks[0], 0) - rows.length(ranks[groups - 1], 0);
  CHECK(of_group.front() - of_group.back() < first_alone);
  CHECK(rows.length(ranks[groups], 0) < rows.length(ranks[2 * groups - 1], 0));
}

TEST_CASE("exact overflow is that of the layout, or a little more where it exchanges units", "[fast]") {
  int with_overflow = 0;
  for (const Case& c : awkward_cases()) {
    const SparseMatrix matrix = matrix_of(c);
    const SparseLayout layout = layout_of(c, matrix);
    CAPTURE(describe(c.network()), to_string(layout.geometry));
    const Overflow expected = overflow_of(layout.geometry, RowProfile::from_matrix(matrix), /*exact=*/true);
    const Overflow found = overflow_in(layout);
    if (c.storage == Storage::packed_delta) {  // some rows need fewer slots than were to be expected
      CHECK(found.mean <= expected.mean);
      CHECK(found.fullest <= expected.fullest);
      CHECK(found.longest <= expected.longest);
    } else if (c.order == aware && c.storage == packed) {  // no warp's rows get longer when banks are balanced
      CHECK(found.mean <= expected.mean);
      CHECK(found.mean >= 0.97 * expected.mean);
      CHECK(found.fullest <= expected.fullest);
      CHECK(found.longest <= expected.longest);
    } else {
      CHECK_THAT(expected.mean, Catch::Matchers::WithinRel(found.mean, 1e-12));
      CHECK(expected.fullest == found.fullest);
      CHECK(expected.longest == found.longest);
    }
    CHECK((found.fullest > 0) == layout.geometry.has_overflow());
    with_overflow += layout.geometry.has_overflow();
  }
  CHECK(with_overflow > 15);
}

TEST_CASE("overflow of a few SMs is close to that of all", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::gru, Cell::lstm);
  const MaskKind mask = GENERATE(MaskKind::uniform, MaskKind::power_law);
  const int lanes = GENERATE(8, 32);
  const double kept = GENERATE(0.2, 0.6);
  const Recurrent network{cell, fp16, 1500, 4, 1, 0.1};
  const RowProfile rows = RowProfile::from_matrix(generate_mask(network.rows(), 1500, 0.1, 3, Precision::fp16, mask));
  const SparsePlan whole = shape_sparse_plan(network, rows, packed, 100, lanes, 2 * info(cell).gates);
  const SparsePlan plan = with_overflow(network, whole, rows, kept);
  CAPTURE(describe(network), static_cast<int>(mask), to_string(plan));
  REQUIRE(plan.has_overflow());
  const Overflow exact = overflow_of(SparseGeometry(network, plan), rows, /*exact=*/true);
  const Overflow fast = overflow_of(SparseGeometry(network, plan), rows, /*exact=*/false);
  // Of a power law a few SMs have little in common with the others.
  const auto close = [](double a, double b, double least, double most) { return a >= least * b && a <= most * b; };
  const bool uniform = mask == MaskKind::uniform;
  CHECK(close(fast.mean, exact.mean, uniform ? 0.9 : 0.6, uniform ? 1.1 : 1.5));
  CHECK(close(fast.fullest, exact.fullest, uniform ? 0.9 : 0.7, uniform ? 1.1 : 2));
  CHECK(close(fast.longest, exact.longest, uniform ? 0.8 : 0.6, 1.25));
}
