// SPDX-License-Identifier: Apache-2.0
// The order in which the lanes of a warp take the non-zeros of their rows where a slot stores its distance from the one
// before (Storage::packed_delta), at most kMostDelta units of the state either way.
//
//   row    its non-zeros, in the order of the state, are cut into one stretch for each of its lanes, so that all take
//          about the same number of slots; which lane gets which stretch is chosen so that each set of banks is needed
//          equally often in all phases
//   lane   takes its stretch from left to right, but not strictly: of what it has not taken it may choose what is
//   within
//          kMostDelta of where it is and of what it takes last, as long as that leaves no new distance beyond
//          kMostDelta
//   phase  the lanes that shared memory serves together choose different sets of banks where they can: a matching of
//          lanes with sets (Kuhn, 1955), first of sets that are needed in every slot that is left, then of lanes
//          without a slot to spare; a lane without a partner waits, if it has one
//   word   that two rows need and both may take now is read once for both: otherwise rows that share phases need some
//          sets more often than they have slots
//
// A slot that no non-zero fills, because a lane has few, waits or has further to go than kMostDelta, has value 0 and
// multiplies some unit of the state: what is not finite there makes the row's result NaN, as in a dense product.
#pragma once

#include "model/banks/bank_rule.hpp"
#include "model/sparse/geometry.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

struct Placed {
  std::int32_t place = 0;     // of the state
  std::int64_t element = -1;  // of the matrix, -1: none
};

// Slots that this much of a row takes in one lane; `row`: ascending places.
int delta_slots(std::span<const Placed> row);

// As much of a row as so many slots of one lane take.
std::span<const Placed> first_of_row(std::span<const Placed> row, int slots);

// Cuts a row into one stretch for each lane, of at most ceil(delta_slots(row) / lanes) slots.
std::vector<std::span<const Placed>> cut_row(std::span<const Placed> row, int lanes);

// Exchanges the stretches of lanes of the same group.
void even_out_phases(std::array<std::span<const Placed>, kWarpLanes>& lanes, const std::array<int, kWarpLanes>& group,
                     const BankRule& rule);

// [slots, 32 lanes]: what each lane reads, slot after slot; `lanes`: their stretches, none of which takes more than
// `slots`. `idle`: where a lane that has none
// reads, with as many places behind it as there are sets of banks.
std::vector<Placed> order_deltas(const std::array<std::span<const Placed>, kWarpLanes>& lanes, int slots,
                                 const BankRule& rule, bool bank_aware, std::int32_t idle);

}  // namespace onchip
