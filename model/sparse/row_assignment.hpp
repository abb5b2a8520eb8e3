// SPDX-License-Identifier: Apache-2.0
// Which SM and lane group computes which hidden unit, and how long the tails become that way.
#pragma once

#include "model/plan/plan.hpp"
#include "model/workload/row_profile.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

// [sms, units_per_sm]: rank (RowProfile) of the unit at each place of an SM, -1 for none. Units go, longest first, each
// to the SM that has least to do so far; unit u of an SM is the (u / groups)-th of its group, and of a rank class (as
// many units as all groups of all SMs) no SM gets more than it has groups. What an SM has to do is its non-zeros; where
// rows are cut and their order is bank_merged, its pieces of rows, for all SMs have as many slots for rows, and then
// its non-zeros.
std::vector<std::int32_t> deal_units(const Network& network, const Plan& plan, const RowProfile& rows);

struct Tail {
  double mean = 0;  // chunks of an SM
  int fullest = 0;  // of the SM that has most
  int longest = 0;  // of the warp that has most
};
// The chunks that the warps' rows need beyond the plan's slots. `exact`: as deal_units deals them, which a layout that
// balances banks may still lower a little; else of a few SMs, dealt in a snake, which is quick.
Tail tail_of(const Network& network, const Plan& plan, const RowProfile& rows, bool exact);

// Pieces of a group's r-th row, of so many non-zeros; and of a unit's rows, the first of which is the r-th.
int pieces_of_row(const Network& network, const Plan& plan, int r, std::int64_t length);
int pieces_of_unit(const Network& network, const Plan& plan, const RowProfile& rows, int r, int rank);
// The pieces that rows beyond the plan's slots are cut into, of the SM that has most; where `ranks` has the units.
int most_pieces(const Network& network, const Plan& plan, const RowProfile& rows,
                const std::vector<std::int32_t>& ranks);

// A piece, and the row of its SM that it is of.
struct Piece {
  int r = -1, group = -1;  // -1: no piece
  int number = 0, of = 0;  // it is one of so many of the row's
  int slots = 0;           // per lane that are expected to be needed
};
// The pieces of an SM's rows, of so many non-zeros [rows_per_group, groups]: [pieces, groups], but more if there are
// more than the groups take. The pieces of a row are neighbours. In registers those are full, one row's after
// another's: what a short one leaves empty is multiplied all the same. Where pieces have chunks those of a row are
// alike, and shorter ones come first: those of a warp are about equally long, and places that are left over are of the
// groups with the longest rows.
std::vector<Piece> deal_pieces(const Network& network, const Plan& plan, const std::vector<std::int64_t>& lengths);

// Chunks for so many slots per lane, of which the first are in registers.
int chunks_beyond(const Network& network, const Plan& plan, int in_registers, int slots);
// Chunks of a warp's row whose longest row of W has `length` non-zeros.
int chunks_needed(const Network& network, const Plan& plan, int r, std::int64_t length);

}  // namespace onchip
