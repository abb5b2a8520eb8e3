// SPDX-License-Identifier: Apache-2.0
// Which SM and lane group computes which hidden unit, and how long the tails become that way.
#pragma once

#include "model/plan.hpp"
#include "model/row_profile.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

// What is left of the rows beside the columns that the plan's pairs of rows take (model/common_columns.hpp): these rows
// themselves if it has none. What follows is of such rows.
const RowProfile& own_rows(const Network& network, const Plan& plan, const RowProfile& rows);

// [sms, units_per_sm]: rank (RowProfile) of the unit at each place of an SM, -1 for none. Units go, longest first, each
// to the SM that has least to do so far; unit u of an SM is the (u / groups)-th of its group, and of a rank class (as
// many units as all groups of all SMs) no SM gets more than it has groups.
std::vector<std::int32_t> deal_units(const Network& network, const Plan& plan, const RowProfile& rows);

struct Tail {
  double mean = 0;  // chunks of an SM
  int fullest = 0;  // of the SM that has most
  int longest = 0;  // of the warp that has most
};
// The chunks that the warps' rows need beyond the plan's slots. `exact`: as deal_units deals them, which a layout that
// balances banks may still lower a little; else of a few SMs, dealt in a snake, which is quick.
Tail tail_of(const Network& network, const Plan& plan, const RowProfile& rows, bool exact);

// Pieces of a group's r-th row, of so many non-zeros.
int pieces_needed(const Plan& plan, int r, std::int64_t length);
// The pieces that rows beyond the plan's slots are cut into, of the SM that has most; where `ranks` has the units.
int most_pieces(const Network& network, const Plan& plan, const RowProfile& rows,
                const std::vector<std::int32_t>& ranks);

// Chunks of a warp's row whose longest row of W has `length` non-zeros.
int chunks_needed(const Network& network, const Plan& plan, int r, std::int64_t length);

}  // namespace onchip
