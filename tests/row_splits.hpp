// SPDX-License-Identifier: Apache-2.0
// Makes plans whose long rows are split. A case is anything with a matrix, a sparse plan and its geometry().
#pragma once

#include "model/sparse/row_assignment.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace onchip {

// Where the overflow is: nowhere, for all weights are in registers; in shared memory; there and streamed; all streamed.
enum class Tiers { registers, shared, mixed, streamed };

// What a plan says of the row that has most splits.
template <typename Case>
void count_splits(Case& c) {
  const RowProfile rows = RowProfile::from_matrix(c.matrix);
  const SparseGeometry geometry = c.geometry();
  c.plan.most_splits = 0;
  for (int rank = 0; rank < rows.units(); ++rank) {
    const int r = rank / (geometry.groups() * geometry.sms) * rows.gates();
    for (int at = 0; at < rows.gates(); ++at) {
      c.plan.most_splits = std::max(c.plan.most_splits, splits_of_row(geometry, r + at, rows.length(rank, at)));
    }
  }
}

// The case with its longest rows split down to as few slots as so many splits for every group, of as few slots, allow.
template <typename Case>
Case in_splits(Case c, int row_splits) {
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

// The case, whose rows are split, with so many chunks of each row and split instead of slots in registers, where
// `tiers` says.
template <typename Case>
Case in_chunks(Case c, int row_chunks, int split_chunks, Tiers tiers, int ring_chunks = 3) {
  const int chunk_slots = c.geometry().chunk_slots;
  const auto fewer = [&](int& slots, int chunks) { slots = std::max(0, slots - chunks * chunk_slots); };
  for (int r = 0; r < c.plan.rows_per_group; ++r) {
    fewer(c.plan.slots[r], c.plan.slots[r] > 0 ? row_chunks : 0);
  }
  fewer(c.plan.split_slots, split_chunks);
  c.plan.row_chunks = row_chunks;
  c.plan.split_chunks = split_chunks;
  const Overflow overflow = overflow_of(c.geometry(), RowProfile::from_matrix(c.matrix), /*exact=*/true);
  c.plan.overflow_chunks = static_cast<int>(std::ceil(overflow.mean));
  c.plan.longest_overflow = overflow.longest;
  c.plan.shared_chunks = tiers == Tiers::shared ? overflow.fullest : tiers == Tiers::mixed ? overflow.fullest / 2 : 0;
  c.plan.ring_chunks = tiers == Tiers::shared ? 0 : ring_chunks;
  count_splits(c);
  return c;
}

}  // namespace onchip
