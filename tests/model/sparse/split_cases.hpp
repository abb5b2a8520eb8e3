// SPDX-License-Identifier: Apache-2.0
// Networks with uneven rows, of whose plans the long rows are split.
#pragma once

#include "model/sparse/search/row_assignment.hpp"
#include "tests/model/cases.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace onchip {

struct SplitCase {
  Network network;
  SparseMatrix matrix;
  SparsePlan plan;

  SparseGeometry geometry() const { return {network, plan}; }
  SparseLayout layout() const { return make_layout(geometry(), matrix); }
};

inline SplitCase uneven_case(Cell cell, Precision precision, int hidden, int batch, int sms, int lanes,
                             int units_per_group = 2, double density = 0.25, Storage storage = Storage::packed_pair) {
  SplitCase c;
  c.network = {cell, precision, hidden, batch, 16, density};
  c.matrix = generate_mask(c.network.rows(), hidden, density, 5, precision, MaskKind::power_law);
  c.plan = shape_sparse_plan(c.network, RowProfile::from_matrix(c.matrix), storage, sms, lanes,
                             units_per_group * info(cell).gates);
  return c;
}

// What a plan says of the row that has most splits.
inline void count_splits(SplitCase& c) {
  const SparseGeometry geometry = c.geometry();
  const RowProfile rows = RowProfile::from_matrix(c.matrix);
  c.plan.most_splits = 0;
  for (int rank = 0; rank < rows.units(); ++rank) {
    const int r = rank / (c.plan.groups() * c.plan.sms) * rows.gates();
    for (int at = 0; at < rows.gates(); ++at) {
      c.plan.most_splits = std::max(c.plan.most_splits, splits_of_row(geometry, r + at, rows.length(rank, at)));
    }
  }
}

// The case with its longest rows split, into as few slots as so many splits for every group, of as few slots, allow.
inline SplitCase in_splits(SplitCase c, int row_splits) {
  const RowProfile rows = RowProfile::from_matrix(c.matrix);
  const std::vector<std::int32_t> ranks = assign_units(c.geometry(), rows);
  const SparsePlan whole = c.plan;
  c.plan.row_splits = row_splits;
  const auto fits = [&] { return most_splits(c.geometry(), rows, ranks) <= row_splits * c.plan.groups(); };
  for (int kept = 1; !(c.plan.split_slots > 0 && fits()); ++kept) {
    for (int r = 0; r < c.plan.rows_per_group; ++r) {
      c.plan.slots[r] = std::min(kept, whole.slots[r]);
    }
    for (c.plan.split_slots = 1; c.plan.split_slots < whole.slots[0] && !fits();) {
      ++c.plan.split_slots;
    }
  }
  count_splits(c);
  return c;
}

// The case, whose rows are split, with so many chunks of each row and split instead of slots in registers; streamed
// through a ring, or all in shared memory.
inline SplitCase in_chunks(SplitCase c, int row_chunks, int split_chunks, int ring_chunks = 0) {
  const int per_chunk = c.geometry().chunk_slots;
  for (int r = 0; r < c.plan.rows_per_group; ++r) {
    c.plan.slots[r] = std::max(0, c.plan.slots[r] - row_chunks * per_chunk);
  }
  c.plan.split_slots = std::max(0, c.plan.split_slots - split_chunks * per_chunk);
  c.plan.row_chunks = row_chunks;
  c.plan.split_chunks = split_chunks;
  const Overflow overflow = overflow_of(c.geometry(), RowProfile::from_matrix(c.matrix), /*exact=*/true);
  c.plan.overflow_chunks = static_cast<int>(std::ceil(overflow.mean));
  c.plan.longest_overflow = overflow.longest;
  c.plan.shared_chunks = ring_chunks > 0 ? overflow.fullest / 2 : overflow.fullest;
  c.plan.ring_chunks = ring_chunks;
  count_splits(c);
  return c;
}

// Cells and types with 1, 2 and 4 splits a group; in registers, in chunks of splits, of rows and of both; as distances.
inline std::vector<SplitCase> every_split() {
  const auto split = [](Cell cell, Precision precision, int batch, int lanes, int row_splits, int units_per_group = 2,
                        Storage storage = Storage::packed_pair) {
    return in_splits(uneven_case(cell, precision, 127, batch, 5, lanes, units_per_group, 0.25, storage), row_splits);
  };
  constexpr auto delta = Storage::packed_delta;
  std::vector<SplitCase> cases{
      split(Cell::relu, Precision::fp16, 4, 8, 1),           split(Cell::tanh, Precision::fp32, 3, 16, 2),
      split(Cell::lstm, Precision::bf16, 5, 16, 1),          split(Cell::gru, Precision::fp8, 16, 8, 2, 1),
      split(Cell::lstm, Precision::fp16, 30, 32, 4),         split(Cell::relu, Precision::fp16, 1, 4, 2, 3),
      split(Cell::relu, Precision::fp16, 4, 8, 1, 2, delta), split(Cell::gru, Precision::fp8, 5, 16, 2, 2, delta)};
  cases[0].plan.order = RowOrder::natural;
  cases[4].plan.order = RowOrder::bank_merged;
  const std::vector<SplitCase> in_registers = cases;
  cases.push_back(in_chunks(in_registers[0], 0, 9));
  cases.push_back(in_chunks(in_registers[1], 1, 1, 2));
  cases.push_back(in_chunks(in_registers[2], 1, 0));
  cases.push_back(in_chunks(in_registers[3], 1, 1, 4));
  cases.push_back(in_chunks(in_registers[6], 1, 1));
  return cases;
}

}  // namespace onchip
