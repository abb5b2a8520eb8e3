// SPDX-License-Identifier: Apache-2.0
// The rows of all units of an SM, one behind another over all of its lanes (Plan::joins_block).
//
// Every warp first takes its own groups' rows, the longest last. What its lanes have no room for goes to lanes that are
// left over in other warps. A lane has one row, or the end of one and the beginning of another, as in
// model/joined_rows.hpp; here a row's number is that of its group times the gates, and its place in the unit.
//
// A part is what a lane has of a row. Parts are numbered row by row, those of a row in the order of the lanes.
#pragma once

#include "model/joined_rows.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

// Rows that take `of_rows` slots, [groups, gates], on the lanes of `warps` warps, of `slots` slots each: [warps, 32].
// Empty if there is no room.
std::vector<LaneRows> join_block(std::span<const std::int64_t> of_rows, int warps, int slots, int strip_slots);

// The fewest slots of a lane, and at least so many, for which there is room.
int block_slots(std::span<const std::int64_t> of_rows, int warps, int strip_slots, int at_least = 1);

// Parts of a block's lanes, [lanes] in the order of join_block().
struct BlockParts {
  std::vector<int> of_first, of_second;  // [lanes]: their numbers; of what a lane does not have, none of meaning
  std::vector<int> begin, count;         // [rows]: the number of the first, and how many
  std::vector<bool> waits;               // [warps]: whether another warp has parts of its groups' rows
};
BlockParts number_parts(std::span<const LaneRows> lanes, int rows);

// Of a lane, as the kernel takes it (kernels/joined_block.cuh).
inline constexpr int kPartBits = 11, kNoPart = (1 << kPartBits) - 1;
std::int32_t encode_block_lane(const LaneRows& rows, int strip_slots, int of_first, int of_second, bool waits,
                               bool any_waits);

}  // namespace onchip
