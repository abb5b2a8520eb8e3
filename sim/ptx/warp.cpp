// SPDX-License-Identifier: Apache-2.0
#include "sim/ptx/warp.hpp"

#include "sim/ptx/lanes.hpp"
#include "sim/ptx/memory_instructions.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace onchip::ptx {
namespace {

constexpr u32 kNowhere = std::numeric_limits<u32>::max();

// What a look at memory that others may write costs of a turn, so that those who spin do not take long.
constexpr int kPollCost = 64;
// Turns with lanes apart until others than those at the smallest place come first.
constexpr int kPatience = 32;

std::string lanes_text(u32 lanes) {
  std::string text;
  for_lanes(lanes, [&](int lane) { text += (text.empty() ? "" : ", ") + std::to_string(lane); });
  return (std::popcount(lanes) == 1 ? "lane " : "lanes ") + text;
}

std::string line_text(const Kernel& kernel, u32 place) {
  const Instruction& i = kernel.code[place];
  return "line " + std::to_string(i.line) + " (" + kernel.names[i.name] + ")";
}

[[noreturn]] void fail(const Warp& warp, u32 place, int lane, const std::string& what) {
  const Grid& grid = warp.block.grid;
  const Instruction& i = grid.kernel.code[place];
  throw Fault(grid.module.name + ":" + std::to_string(i.line) + ": block " + std::to_string(warp.block.number) +
              ", thread " + std::to_string(kLanes * warp.number + lane) + ": " + grid.kernel.names[i.name] + ": " +
              what);
}

// The lanes that go on next, and how far before others may join them.
struct Group {
  u32 place = kNowhere, lanes = 0;
  u32 others = kNowhere;  // smallest place beyond of a lane that is not among them
};

Group choose(Warp& warp, bool last_first) {
  Group group;
  const u32 able = warp.live & ~warp.waiting;
  for_lanes(able, [&](int lane) {
    const u32 place = warp.place[lane];
    if (group.place == kNowhere || (last_first ? place > group.place : place < group.place)) {
      group.place = place;
    }
  });
  for_lanes(warp.live, [&](int lane) {
    const u32 place = warp.place[lane];
    if (place == group.place) {
      group.lanes |= 1u << lane;
    } else if (place > group.place) {
      group.others = std::min(group.others, place);
    }
  });
  warp.waiting &= ~group.lanes;
  return group;
}

void put(Warp& warp, u32 lanes, u32 place) {
  if (lanes == ~0u) {
    warp.place.fill(place);
  } else {
    for_lanes(lanes, [&](int lane) { warp.place[lane] = place; });
  }
}

void release_barrier(Block& block, int barrier) {
  const int expected = block.expected[barrier] > 0 ? block.expected[barrier] : block.live_warps;
  if (block.arrived[barrier] == 0 || block.arrived[barrier] < expected) {
    return;
  }
  block.arrived[barrier] = 0;
  for (Warp& warp : block.warps) {
    if (warp.state == Warp::State::at_barrier && warp.barrier == barrier) {
      warp.state = Warp::State::ready;
      if (warp.any_to >= 0) {
        *warp.lanes<u32>(static_cast<u32>(warp.any_to)) = block.any[barrier] ? ~0u : 0;
        warp.any_to = -1;
      }
    }
  }
  block.any[barrier] = false;
}

void release_cluster(Cluster& cluster) {
  if (cluster.arrived > 0 && cluster.arrived == cluster.live_warps) {
    cluster.arrived = 0;
    ++cluster.phase;
  }
}

void end_warp(Warp& warp) {
  warp.state = Warp::State::done;
  --warp.block.live_warps;
  --warp.block.cluster.live_warps;
  for (int barrier = 0; barrier < Block::kBarriers; ++barrier) {
    release_barrier(warp.block, barrier);
  }
  release_cluster(warp.block.cluster);
}

// Lanes that are in the same place, one turn.
class Turn {
 public:
  Turn(Warp& warp, Group group)
      : warp_(warp),
        kernel_(warp.block.grid.kernel),
        counts_accesses_(warp.block.grid.banks.has_value()),
        place_(group.place),
        lanes_(group.lanes),
        others_(group.others) {}

  // Until the lanes have to be chosen anew.
  void go() {
    const Instruction* const code = kernel_.code.data();
    u64 instructions = 0, lane_instructions = 0;
    bool goes_on = true;
    try {
      while (goes_on) {
        const Instruction& i = code[place_];
        const u32 lanes = lanes_ & (*warp_.lanes<u32>(i.guard) ^ i.guard_flip);
        ++instructions;
        lane_instructions += lanes == ~0u ? kLanes : static_cast<u64>(std::popcount(lanes));
        if (i.flow == Flow::plain) {
          if (lanes != 0) {
            execute(i, lanes);
          }
          ++place_;
          warp_.budget -= i.polls ? kPollCost : 1;
          goes_on = place_ < others_ && warp_.budget > 0;
        } else {
          --warp_.budget;
          goes_on = step(i, lanes) && place_ < others_ && warp_.budget > 0;
        }
      }
    } catch (const LaneFault& fault) {
      fail(warp_, place_, fault.lane, fault.what);
    }
    put(warp_, lanes_, place_);
    warp_.block.grid.counts.warp_instructions += instructions;
    warp_.block.grid.counts.lane_instructions += lane_instructions;
  }

 private:
  void execute(const Instruction& i, u32 lanes) {
    if (i.access != Access::none && counts_accesses_) {
      count_access(warp_, i, lanes);
    }
    i.execute(warp_, i, lanes);
  }
  // Those of `lanes` go to `place`, the others on to the next instruction. Whether all are still together.
  bool split(u32 lanes, u32 place) {
    if (lanes == lanes_) {
      const bool is_whole = lanes == warp_.live;
      place_ = place;
      return is_whole;
    }
    put(warp_, lanes, place);
    lanes_ &= ~lanes;
    ++place_;
    return false;
  }
  bool wait(u32 lanes) {
    warp_.waiting |= lanes;
    return false;
  }
  bool step(const Instruction& i, u32 lanes) {
    if (i.flow == Flow::warp_sync) {
      return together(i, lanes);
    }
    if (i.flow == Flow::branch || i.flow == Flow::exit) {
      if (lanes == 0) {
        ++place_;
        return true;
      }
      return i.flow == Flow::branch ? split(lanes, i.target) : end(lanes);
    }
    if (i.guard_flip != 0 || lanes != lanes_) {
      throw LaneFault{std::countr_zero(lanes_), "a barrier under a predicate that differs"};
    }
    if (lanes_ != warp_.live) {
      return wait(lanes_);
    }
    Cluster& cluster = warp_.block.cluster;
    if (i.flow == Flow::cluster_arrive) {
      warp_.cluster_phase = cluster.phase + 1;
      ++cluster.arrived;
      release_cluster(cluster);
    } else if (i.flow != Flow::cluster_wait) {
      return arrive(i, /*waits=*/i.flow != Flow::block_arrive);
    } else if (cluster.phase < warp_.cluster_phase) {
      warp_.state = Warp::State::at_cluster;
      return false;
    }
    ++place_;
    return true;
  }

  bool end(u32 lanes) {
    warp_.live &= ~lanes;
    warp_.waiting = 0;  // whoever waited for them looks again
    lanes_ &= ~lanes;
    ++place_;
    if (warp_.live == 0) {
      end_warp(warp_);
    }
    return false;
  }

  bool arrive(const Instruction& i, bool waits) {
    const bool tells = i.flow == Flow::block_any;  // result, barrier, predicate
    const u32 barrier = *warp_.lanes<u32>(i.at[tells ? 1 : 0]);
    const int lane = std::countr_zero(lanes_);
    Block& block = warp_.block;
    if (barrier >= Block::kBarriers) {
      throw LaneFault{lane, "there is no barrier " + std::to_string(barrier)};
    }
    const bool counts = i.operands > 1 && !tells;
    const u32 threads = counts ? *warp_.lanes<u32>(i.at[1]) : 0;
    if (threads % kLanes != 0 || threads > kLanes * block.warps.size() || (counts && threads == 0)) {
      throw LaneFault{lane, "a barrier of " + std::to_string(threads) + " threads"};
    }
    if (block.arrived[barrier] > 0 && block.expected[barrier] != static_cast<int>(threads / kLanes)) {
      throw LaneFault{lane, "a barrier for which others expect another number of threads"};
    }
    block.expected[barrier] = static_cast<int>(threads / kLanes);
    if (waits) {
      warp_.barrier = static_cast<int>(barrier);
      warp_.state = Warp::State::at_barrier;
    }
    if (tells) {
      warp_.any_to = i.at[0];
      block.any[barrier] = block.any[barrier] || (*warp_.lanes<u32>(i.at[2]) & lanes_) != 0;
    }
    ++place_;
    ++block.arrived[barrier];
    release_barrier(block, static_cast<int>(barrier));
    return warp_.state == Warp::State::ready;
  }

  // Executes a warp-wide instruction for the lanes whose partners are all here; the others wait.
  bool together(const Instruction& i, u32 lanes) {
    const u32 exist = warp_.existing;
    const u32* const masks = i.operands > 0 ? warp_.lanes<u32>(i.at[i.operands - 1]) : nullptr;
    u32 waits = 0;
    for (u32 rest = lanes; rest != 0;) {
      const int lane = std::countr_zero(rest);
      const u32 mask = i.needs_warp ? exist : masks[lane] & exist;
      u32 same = 0;
      for_lanes(rest, [&](int other) { same |= u32{i.needs_warp || (masks[other] & exist) == mask} << other; });
      if ((mask & 1u << lane) == 0) {
        throw LaneFault{lane, "the lane is not in the mask that it gives"};
      }
      if ((mask & ~warp_.live) != 0) {
        throw LaneFault{lane, "waits for " + lanes_text(mask & ~warp_.live) + ", which have ended"};
      }
      if ((mask & ~same) == 0) {
        execute(i, same & mask);
        rest &= ~mask;
      } else {
        waits |= same;
        rest &= ~same;
      }
    }
    if (waits == 0) {
      ++place_;
      return true;
    }
    put(warp_, lanes_ & ~waits, place_ + 1);
    lanes_ = waits;
    return wait(waits);
  }

  Warp& warp_;
  const Kernel& kernel_;
  bool counts_accesses_;
  u32 place_, lanes_, others_;
};

}  // namespace

SharedPlace shared_place(Warp& warp, int lane, u64 address, std::size_t bytes) {
  const u64 rank = address >> 24;
  Block* block = &warp.block;
  if (rank > 0 && rank <= block->cluster.blocks.size()) {
    block = block->cluster.blocks[rank - 1];
  }
  const u64 at = (address & 0xffffff) - kSharedBegin;
  if (rank > block->cluster.blocks.size() || at > block->shared.size() || bytes > block->shared.size() - at) {
    throw LaneFault{lane, std::to_string(bytes) + " bytes at " +
                              std::to_string(static_cast<s64>(address - kSharedBegin)) + " are outside of the " +
                              std::to_string(block->shared.size()) + " bytes of shared memory"};
  }
  return {block, static_cast<u32>(at)};
}

std::string describe(const Warp& warp) {
  const Kernel& kernel = warp.block.grid.kernel;
  std::string text = "block " + std::to_string(warp.block.number) + ", warp " + std::to_string(warp.number);
  for (u32 rest = warp.live; rest != 0;) {
    const u32 place = warp.place[std::countr_zero(rest)];
    u32 same = 0;
    for_lanes(rest, [&](int lane) { same |= u32{warp.place[lane] == place} << lane; });
    // Whoever waits at the block's barrier stands behind it.
    const u32 at = warp.state == Warp::State::at_barrier ? place - 1 : place;
    text += (rest == warp.live ? ": " : "; ") + (same == ~0u ? "all lanes" : lanes_text(same)) + " at " +
            line_text(kernel, at);
    rest &= ~same;
  }
  return text;
}

bool run(Warp& warp, int most_instructions) {
  if (warp.state == Warp::State::at_cluster) {
    if (warp.block.cluster.phase < warp.cluster_phase) {
      return false;
    }
    warp.state = Warp::State::ready;
  }
  if (warp.state != Warp::State::ready) {
    return false;
  }
  warp.budget = most_instructions;
  bool last_first = warp.apart >= kPatience;
  if (last_first) {
    warp.apart = 0;
  }
  while (warp.state == Warp::State::ready && warp.budget > 0) {
    if ((warp.live & ~warp.waiting) == 0) {
      throw Fault(warp.block.grid.module.name +
                  ": lanes of one warp wait for one another in different places: " + describe(warp));
    }
    Turn(warp, choose(warp, last_first)).go();
    last_first = false;
  }
  const u32 first = warp.live == 0 ? 0 : warp.place[std::countr_zero(warp.live)];
  bool is_apart = false;
  for_lanes(warp.live, [&](int lane) { is_apart |= warp.place[lane] != first; });
  warp.apart = is_apart ? warp.apart + 1 : 0;
  return true;
}

}  // namespace onchip::ptx
