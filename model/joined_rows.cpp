// SPDX-License-Identifier: Apache-2.0
#include "model/joined_rows.hpp"

#include "model/bank_rule.hpp"

#include <algorithm>
#include <numeric>

namespace onchip {

UnitLengths lengths_of_unit(const RowProfile& rows, int rank) {
  UnitLengths lengths{};
  for (int at = 0; at < rows.gates(); ++at) {
    lengths[at] = rows.length(rank, at);
  }
  return lengths;
}

UnitLengths slots_of_unit(const Network& network, const Plan& plan, UnitLengths lengths) {
  for (std::int64_t& length : lengths) {
    length = slots_of_lanes(network, plan, length);
  }
  return lengths;
}

namespace {

// Calls `visit` with each lane that has some of a row, whether it is its first, the row, how many slots it takes, and
// the first of these. False if there is no room.
template <typename Visit>
bool walk(std::span<const std::int64_t> of_rows, int lanes, int slots, int in_registers, int strip_slots,
          Visit&& visit) {
  int lane = 0, rows = 0, used = 0;  // of the lane: rows, slots
  for (int row = 0; row < std::ssize(of_rows); ++row) {
    for (std::int64_t left = of_rows[row]; left > 0;) {
      if (rows == 2 || used >= slots || (rows == 1 && used > in_registers)) {
        ++lane;
        rows = used = 0;
      }
      if (lane >= lanes || slots <= 0) {
        return false;
      }
      const int taken = static_cast<int>(std::min<std::int64_t>(left, slots - used));
      visit(lane, rows == 0, row, taken, used);
      used += rows == 0 ? (taken + strip_slots - 1) / strip_slots * strip_slots : taken;
      ++rows;
      left -= taken;
    }
  }
  return true;
}

// Whether there is room: the same lanes, those of one row alone all at once.
bool has_room(std::span<const std::int64_t> of_rows, int lanes, int slots, int in_registers, int strip_slots) {
  std::int64_t begun = 0;  // lanes
  int used = slots;        // of the last of these, if another row may begin in it, else all
  for (const std::int64_t of_row : of_rows) {
    const bool shares = used < slots && used <= in_registers;
    const std::int64_t left = of_row - (shares ? std::min<std::int64_t>(of_row, slots - used) : 0);
    if (of_row > 0) {
      used = slots;
    }
    if (left > 0) {
      if (slots <= 0) {
        return false;
      }
      begun += (left + slots - 1) / slots;
      const auto rest = static_cast<int>(left % slots);
      used = rest == 0 ? slots : (rest + strip_slots - 1) / strip_slots * strip_slots;
    }
  }
  return begun <= lanes;
}

}  // namespace

std::vector<LaneRows> join_rows(std::span<const std::int64_t> of_rows, int lanes, int slots, int in_registers,
                                int strip_slots) {
  std::vector<LaneRows> all(static_cast<std::size_t>(lanes));
  const bool fits = walk(of_rows, lanes, slots, in_registers, strip_slots,
                         [&](int lane, bool is_first, int row, int taken, int begin) {
                           LaneRows& of = all[static_cast<std::size_t>(lane)];
                           (is_first ? of.first : of.second) = row;
                           (is_first ? of.of_first : of.of_second) = taken;
                           of.begin = begin;
                         });
  return fits ? all : std::vector<LaneRows>{};
}

int joined_thread(const Network& network, const Plan& plan, int group, int i) {
  const int lanes = std::min(kWarpLanes, plan.lanes_of_joined()), spread = std::min(load_phases(network, plan), lanes);
  const int lane = i % lanes % spread * (lanes / spread) + i % lanes / spread;
  return plan.joins_block > 0 ? i / lanes * lanes + lane : thread_of(network, plan, group, lane);
}

int joined_slots(std::span<const std::int64_t> of_rows, int lanes, int strip_slots, int in_registers) {
  const std::int64_t all = std::accumulate(of_rows.begin(), of_rows.end(), std::int64_t{0});
  auto slots = static_cast<int>((all + lanes - 1) / lanes);
  while (!has_room(of_rows, lanes, slots, in_registers, strip_slots)) {
    ++slots;
  }
  return slots;
}

int joined_slots(const Plan& plan, int r, std::span<const std::int64_t> of_rows) {
  return joined_slots(of_rows, plan.lanes_of_joined(), plan.strip_slots, plan.slots[r]);
}

UnitCut cut_unit(const Network& network, const Plan& plan, int r, const UnitLengths& lengths) {
  UnitCut cut{.kept = slots_of_unit(network, plan, lengths)};
  const std::int64_t piece = std::int64_t{piece_room(network, plan)} * plan.lanes_per_row;
  while (plan.pieces > 0 && piece > 0 &&
         !has_room(cut.kept, plan.lanes_per_row, row_room(network, plan, r), kAnywhere, plan.strip_slots)) {
    const auto longest = std::ranges::max_element(cut.kept);
    *longest = std::max<std::int64_t>(0, *longest - piece);
    ++cut.pieces[longest - cut.kept.begin()];
  }
  return cut;
}

std::int32_t encode_lane(const LaneRows& rows, int strip_slots, bool awaits_pieces) {
  const auto place = [](int row) { return row == LaneRows::kNone ? kNoRow : row; };
  const int strips = rows.second == LaneRows::kNone ? kOneRow : rows.begin / strip_slots;
  return strips | place(rows.first) << 8 | place(rows.second) << 16 | (awaits_pieces ? 1 << 24 : 0);
}

}  // namespace onchip
