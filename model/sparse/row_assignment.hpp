// SPDX-License-Identifier: Apache-2.0
// Which SM and lane group computes which hidden unit, and how much overflows that way.
#pragma once

#include "model/sparse/geometry.hpp"
#include "model/workload/row_profile.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace onchip {

// [sms, units_per_sm]: rank (RowProfile) of the unit at each place of an SM, -1 for none. Units go, longest first, each
// to the SM that has least to do so far; unit u of an SM is the (u / groups)-th of its group, and of a rank class (as
// many units as all groups of all SMs) no SM gets more than it has groups. What an SM has to do is its non-zeros; where
// rows are split and their order is bank_merged, its splits of rows, for all SMs have as many slots for rows, and then
// its non-zeros.
std::vector<std::int32_t> assign_units(const SparseGeometry& geometry, const RowProfile& rows);

struct Overflow {
  double mean = 0;  // chunks of an SM
  int fullest = 0;  // of the SM that has most
  int longest = 0;  // of the warp that has most
};
// The chunks that the warps' rows need beyond the plan's slots. `exact`: as assign_units assigns them, which a layout
// that balances banks may still lower a little; else of a few SMs, assigned in a snake, which is fast.
Overflow overflow_of(const SparseGeometry& geometry, const RowProfile& rows, bool exact);

// Two SMs that have neither the longest rows nor the shortest, and the rank of the unit that such a sample has at a
// place of an SM, in a snake; it may be none's.
inline std::array<int, 2> sampled_sms(const SparseGeometry& geometry) {
  return {geometry.sms / 4, geometry.sms * 3 / 4};
}
inline int sampled_rank(const SparseGeometry& geometry, int sm, int place) {
  return place * geometry.sms + (place % 2 ? geometry.sms - 1 - sm : sm);
}

// Splits of a group's r-th row, of so many non-zeros; and of a unit's rows, the first of which is the r-th.
int splits_of_row(const SparseGeometry& geometry, int r, std::int64_t length);
int splits_of_unit(const SparseGeometry& geometry, const RowProfile& rows, int r, int rank);
// The splits of rows beyond the plan's slots, of the SM that has most; where `ranks` has the units.
int most_splits(const SparseGeometry& geometry, const RowProfile& rows, const std::vector<std::int32_t>& ranks);

// A split, and the row of its SM that it is of.
struct Split {
  int r = -1, group = -1;  // -1: no split
  int number = 0, of = 0;  // it is one of so many of the row's
  int slots = 0;           // per lane that are expected to be needed
};
// The splits of an SM's rows, of so many non-zeros [rows_per_group, groups]: [splits, groups], but more if there are
// more than the groups take. The splits of a row are neighbours. In registers those are full, one row's after
// another's: what a short one leaves empty is multiplied all the same. Where splits have chunks those of a row are
// alike, and shorter ones come first: those of a warp are about equally long, and places that are left over are of the
// groups with the longest rows.
std::vector<Split> assign_splits(const SparseGeometry& geometry, const std::vector<std::int64_t>& lengths);

// Chunks for so many slots per lane, of which the first are in registers.
int chunks_beyond(const SparseGeometry& geometry, int in_registers, int slots);
// Chunks of a warp's row whose longest row of W has `length` non-zeros.
int chunks_needed(const SparseGeometry& geometry, int r, std::int64_t length);

}  // namespace onchip
