// SPDX-License-Identifier: Apache-2.0
#include "model/joined_block.hpp"

#include "model/bank_rule.hpp"

#include <algorithm>
#include <numeric>

namespace onchip {
namespace {

// The lanes of a warp, filled one after another.
class WarpLanes {
 public:
  WarpLanes(std::span<LaneRows> lanes, int slots, int strip_slots)
      : lanes_(lanes), slots_(slots), strip_slots_(strip_slots) {}

  // Takes as much of a row as there is room for, and returns the rest.
  std::int64_t take(int row, std::int64_t left) {
    while (left > 0 && has_room()) {
      LaneRows& lane = lanes_[static_cast<std::size_t>(lane_)];
      const int taken = static_cast<int>(std::min<std::int64_t>(left, slots_ - used_));
      if (lane.first == LaneRows::kNone) {
        lane.first = row;
        lane.of_first = taken;
        used_ = (taken + strip_slots_ - 1) / strip_slots_ * strip_slots_;
      } else {
        lane.second = row;
        lane.of_second = taken;
        lane.begin = used_;
        used_ = slots_;
      }
      left -= taken;
    }
    return left;
  }

  int free_slots() const { return static_cast<int>(std::ssize(lanes_) - lane_) * slots_ - used_; }

 private:
  bool has_room() {
    if (lane_ < std::ssize(lanes_) && used_ >= slots_) {
      ++lane_;
      used_ = 0;
    }
    return lane_ < std::ssize(lanes_);
  }

  std::span<LaneRows> lanes_;
  int slots_, strip_slots_;
  int lane_ = 0, used_ = 0;  // slots of it
};

}  // namespace

std::vector<LaneRows> join_block(std::span<const std::int64_t> of_rows, int warps, int slots, int strip_slots) {
  std::vector<LaneRows> all(static_cast<std::size_t>(warps) * kWarpLanes);
  std::vector<WarpLanes> lanes;
  const int rows_of_warp = static_cast<int>(std::ssize(of_rows)) / warps;
  struct Rest {
    int row;
    std::int64_t left;
  };
  std::vector<Rest> rests;
  for (int warp = 0; warp < warps; ++warp) {
    lanes.emplace_back(std::span(all).subspan(static_cast<std::size_t>(warp) * kWarpLanes, kWarpLanes), slots,
                       strip_slots);
    const auto own = of_rows.subspan(static_cast<std::size_t>(warp) * rows_of_warp, rows_of_warp);
    const auto longest = static_cast<int>(std::ranges::max_element(own) - own.begin());
    const auto take = [&](int row) {
      if (const std::int64_t left = lanes.back().take(warp * rows_of_warp + row, own[row]); left > 0) {
        rests.push_back({warp * rows_of_warp + row, left});
      }
    };
    for (int row = 0; row < rows_of_warp; ++row) {
      if (row != longest) {
        take(row);
      }
    }
    take(longest);
  }
  std::ranges::stable_sort(rests, [](const Rest& a, const Rest& b) { return a.left > b.left; });
  for (Rest& rest : rests) {
    while (rest.left > 0) {
      const auto most = std::ranges::max_element(lanes, {}, &WarpLanes::free_slots);
      const std::int64_t left = most->take(rest.row, rest.left);
      if (left == rest.left) {
        return {};
      }
      rest.left = left;
    }
  }
  return all;
}

int block_slots(std::span<const std::int64_t> of_rows, int warps, int strip_slots, int at_least) {
  const std::int64_t all = std::accumulate(of_rows.begin(), of_rows.end(), std::int64_t{0});
  const int lanes = warps * kWarpLanes;
  int slots = std::max(at_least, static_cast<int>((all + lanes - 1) / lanes));
  while (all > 0 && join_block(of_rows, warps, slots, strip_slots).empty()) {
    ++slots;
  }
  return slots;
}

BlockParts number_parts(std::span<const LaneRows> lanes, int rows) {
  BlockParts parts;
  parts.of_first.assign(lanes.size(), 0);
  parts.of_second.assign(lanes.size(), 0);
  parts.begin.assign(static_cast<std::size_t>(rows), 0);
  parts.count.assign(static_cast<std::size_t>(rows), 0);
  const int warps = static_cast<int>(std::ssize(lanes)) / kWarpLanes;
  parts.waits.assign(static_cast<std::size_t>(warps), false);
  for (const LaneRows& lane : lanes) {
    for (const int row : {lane.first, lane.second}) {
      if (row != LaneRows::kNone) {
        ++parts.count[row];
      }
    }
  }
  std::exclusive_scan(parts.count.begin(), parts.count.end(), parts.begin.begin(), 0);
  std::vector<int> next = parts.begin;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const auto add = [&](int row, int& number) {
      if (row == LaneRows::kNone) {
        return;
      }
      number = next[row]++;
      const int owner = row / (rows / warps);
      parts.waits[owner] = parts.waits[owner] || owner != static_cast<int>(lane) / kWarpLanes;
    };
    add(lanes[lane].first, parts.of_first[lane]);
    add(lanes[lane].second, parts.of_second[lane]);
  }
  return parts;
}

std::int32_t encode_block_lane(const LaneRows& rows, int strip_slots, int of_first, int of_second, bool waits,
                               bool any_waits) {
  const int strips = rows.second == LaneRows::kNone ? kOneRow : rows.begin / strip_slots;
  const int first = rows.first == LaneRows::kNone ? kNoPart : of_first;
  const int second = rows.second == LaneRows::kNone ? kNoPart : of_second;
  const std::uint32_t waiting = (waits ? 1 : 0) | (any_waits ? 2 : 0);
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(strips | first << 8) |
                                   static_cast<std::uint32_t>(second) << (8 + kPartBits) |
                                   waiting << (8 + 2 * kPartBits));
}

}  // namespace onchip
