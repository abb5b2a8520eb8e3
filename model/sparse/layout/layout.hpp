// SPDX-License-Identifier: Apache-2.0
// Which non-zero sits in which slot of which lane: computed once on the host, loaded by the kernel, replayed by the
// simulator, read back by the tests. Deterministic in (matrix, geometry).
//
//   rows     of the units, as model/sparse/row_assignment.hpp assigns them, so that SMs carry equal loads, and
//            model/sparse/layout/bank_balance.hpp exchanges them; a unit's longest row first; then the splits of rows,
//            one after another in the order of their rows, over the groups of the SM
//   slots    of the rows that a warp works on at the same time: the plan's, and whole chunks for what a row has beyond,
//            unless it is split. In bank-aware order the lanes that one shared-memory phase serves (32 lanes
//            for loads of up to 4 bytes, 16 for 8, 8 for 16) get columns in different banks where possible
//   padding  slots that no non-zero fills hold value 0 and a unit behind the state that is always zero, in a free bank;
//            packed_delta: some unit of the state (model/sparse/layout/delta_order.hpp)
#pragma once

#include "model/plan/encoded.hpp"
#include "model/sparse/geometry.hpp"
#include "model/workload/mask.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

struct SparseLayout {
  explicit SparseLayout(const SparseGeometry& of) : geometry(of) {}

  SparseGeometry geometry;
  std::vector<std::int32_t> rows;  // [sms, all_rows, groups]: row of W, -1 for none
  // With splits, [sms, all_rows, groups]: which of the row's non-zeros are there, the first and the one behind the
  // last; packed_delta: in the order of the state.
  std::vector<std::int32_t> begins, ends;
  std::vector<std::int32_t> order;  // [hidden]: place of each unit in the state, see units_per_sm
  std::vector<std::int64_t> first;  // [sms * all_rows * warps + 1]: first slot of each warp's rows
  std::vector<std::int32_t> place;  // [slots, 32 lanes]: what to load; >= state_units: a zero unit
  std::vector<float> value;         // [slots, 32 lanes]

  // The r-th rows of a warp's groups: their slots are [first[i], first[i + 1]).
  std::size_t warp_row(int sm, int r, int warp) const {
    return (static_cast<std::size_t>(sm) * geometry.all_rows() + r) * geometry.warps() + warp;
  }
  int slots(std::size_t warp_row) const { return static_cast<int>(first[warp_row + 1] - first[warp_row]); }
  std::size_t entry(std::size_t warp_row, int slot, int lane) const {
    return static_cast<std::size_t>(first[warp_row] + slot) * 32 + lane;
  }
  // Where `rows` and `begins` have the r-th row of a group.
  std::size_t group_row(int sm, int r, int group) const {
    return (static_cast<std::size_t>(sm) * geometry.all_rows() + r) * geometry.groups() + group;
  }
  // Row of W that the group of this thread works on, -1 for none.
  std::int32_t row(int sm, int r, int group) const { return rows[group_row(sm, r, group)]; }
};

// Throws InputError if a row does not fit: longer than its slots if the plan has neither overflow nor splits, or of
// more splits than its SM's groups take, or of more chunks than shared memory has room for if nothing may be streamed.
// Works on so many threads; the layout does not depend on how many.
SparseLayout make_layout(const SparseGeometry& geometry, const SparseMatrix& matrix, int threads = 1);

// Where the i-th longest row of a block is: every other class of rows goes from its last group to the first.
struct BlockPlace {
  int r, group;
};
constexpr BlockPlace block_place(int i, int rows, int groups) {
  const int r = i / groups, group = i % groups;
  return {r, r % 2 != 0 && (r + 1) * groups <= rows ? groups - 1 - group : group};
}

// Of one SM's block of a matrix, [hidden, state_units] with one row for each unit: the longest rows first, and column c
// at place c.
SparseLayout make_block_layout(const SparseGeometry& geometry, const SparseMatrix& block);

// The matrix back; equal to what make_layout was given (but only packed_pair keeps its zeros).
SparseMatrix unpack(const SparseLayout& layout);

// Chunks of each warp's rows beyond the plan's slots, and where they are: those in shared memory come first.
struct OverflowChunks {
  int shared = 0, streamed = 0;
};
std::vector<OverflowChunks> split_overflow(const SparseLayout& layout);  // [sms * all_rows * warps], see warp_row()

Encoded encode(const SparseLayout& layout);

// Of each row of W, where its result is: place of its unit in the state * gates + place of the row in its unit.
std::vector<std::int32_t> row_places(const SparseLayout& layout);

// Of each row of W, at its row_places: the number of its first split | how many it has << 16; without splits: none.
std::vector<std::int32_t> splits_of_rows(const SparseLayout& layout);

// fp8: the scale of each row of W, [rows]; else empty.
std::vector<float> row_scales(const SparseLayout& layout);

// Of the gathers.
Wavefronts gather_wavefronts(const SparseLayout& layout);

}  // namespace onchip
