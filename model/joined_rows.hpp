// SPDX-License-Identifier: Apache-2.0
// A unit's rows that stand one behind another, cut evenly over the lanes of its group; model/joined_block.hpp does the
// same for all units of an SM.
//
// Where each row is spread over all lanes, every row has as many slots as the longest of its kind, and lanes of a warp
// that load at the same time load columns of the same rows. Joined, a unit takes what its rows take together, which
// differs less from unit to unit, and lanes that load at the same time load columns of all of its rows, which are more
// even over the banks than those of any one. A lane has one row, or the end of one and the beginning of another, which
// begins with a strip of Plan::strip_slots slots: kernels/joined.cuh adds up every strip on its own.
#pragma once

#include "model/plan.hpp"
#include "model/row_profile.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace onchip {

// Of each row of a unit, by its place, how many non-zeros.
using UnitLengths = std::array<std::int64_t, kMostGates>;
UnitLengths lengths_of_unit(const RowProfile& rows, int rank);

// What these take, in slots of all lanes: packed_pair, the same; packed_delta, what is to be expected (slots_of_lanes).
UnitLengths slots_of_unit(const Network& network, const Plan& plan, UnitLengths lengths);

// What a lane has of the rows that are joined.
struct LaneRows {
  static constexpr int kNone = -1;
  int first = kNone, second = kNone;  // places of rows in the unit; of a block's n-th unit, n * gates more
  int of_first = 0, of_second = 0;    // slots that the rows take, as slots_of_unit()
  int begin = 0;                      // the second's first slot
};

inline constexpr int kAnywhere = std::numeric_limits<int>::max();  // may a row begin, as far as registers matter

// Rows, which take `of_rows` slots, on `lanes` lanes, each of `slots` slots at most. A second row begins among the
// first `in_registers` of them. Empty if there is no room.
std::vector<LaneRows> join_rows(std::span<const std::int64_t> of_rows, int lanes, int slots, int in_registers,
                                int strip_slots);

// The thread whose rows are the i-th of those of groups from `group` on that are joined: a warp's lanes in turn take
// part in the phases in turn, so that each phase serves all rows.
int joined_thread(const Network& network, const Plan& plan, int group, int i);

// The fewest slots of a lane for which there is room.
int joined_slots(std::span<const std::int64_t> of_rows, int lanes, int strip_slots, int in_registers = kAnywhere);
// The same for a plan, of rows of the units that are its groups' `r`-th rows and those after it.
int joined_slots(const Plan& plan, int r, std::span<const std::int64_t> of_rows);

// What stays with a unit whose rows begin with its group's `r`-th, in slots, and how many pieces its rows are cut into:
// one after another off the longest, until the rest has room, in registers and chunks. That does not depend on which of
// its slots are which; where a row has to begin in registers it may take some more.
struct UnitCut {
  UnitLengths kept{};
  std::array<int, kMostGates> pieces{};
};
UnitCut cut_unit(const Network& network, const Plan& plan, int r, const UnitLengths& lengths);

// Of a lane, as the kernel takes it: strips before the second row | first row << 8 | second row << 16 | whether rows of
// its warp have pieces << 24. A row that is not there is kNoRow, strips without a second row are kOneRow.
inline constexpr int kNoRow = 0xff, kOneRow = 0xff, kMostStrips = kOneRow - 2;
std::int32_t encode_lane(const LaneRows& rows, int strip_slots, bool awaits_pieces);

}  // namespace onchip
