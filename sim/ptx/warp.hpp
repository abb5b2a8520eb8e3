// SPDX-License-Identifier: Apache-2.0
// The state of a launch: blocks, their warps, and the execution of one warp.
#pragma once

#include "sim/ptx/machine.hpp"

#include <string>
#include <vector>

namespace onchip::ptx {

struct Grid {
  const Module& module;
  const Kernel& kernel;
  const Launch& launch;
  const GlobalMemory& memory;
  u64 variables = 0;  // address
  Counts counts;
  std::optional<BankModel> banks = {};
};

struct Block;

struct Cluster {
  std::vector<Block*> blocks;
  int live_warps = 0, arrived = 0;
  u64 phase = 0;  // barriers that have ended
};

// An asynchronous copy that has not been waited for.
struct Copy {
  int lane = 0;
  u32 group = 0;
  u32 to = 0, bytes = 0;
  const std::byte* from = nullptr;
};

struct Warp {
  enum class State : std::uint8_t { ready, at_barrier, at_cluster, done };
  Block& block;
  int number = 0;  // in the block
  State state = State::ready;
  u32 existing = 0;                 // lanes
  u32 live = 0;                     // of these, lanes that have not ended
  u32 waiting = 0;                  // of these, lanes that wait for others of the warp
  std::array<u32, kLanes> place{};  // of each lane in the code
  std::byte* registers = nullptr;
  std::vector<std::byte> local{};
  std::vector<Copy> copies{};
  std::array<u32, kLanes> copy_group{};
  u64 cluster_phase = 0;  // that it has arrived for
  int barrier = 0;        // that it waits at
  s64 any_to = -1;        // the predicate that becomes what it tells
  int apart = 0;          // turns in a row that ended with lanes at different places
  int budget = 0;         // instructions left of its turn

  template <typename T>
  T* lanes(u32 at) {
    return reinterpret_cast<T*>(registers + at);
  }
};

struct Block {
  static constexpr int kBarriers = 16;
  Grid& grid;
  Cluster& cluster;
  int number = 0, rank = 0;             // in the grid, in the cluster
  std::vector<std::byte> shared{};      // from kSharedBegin on
  std::vector<std::uint8_t> written{};  // of each of its bytes: 0 never, 1 yes, 2 by a copy that is under way
  std::vector<Warp> warps{};
  int live_warps = 0;
  std::array<int, kBarriers> arrived{};   // warps
  std::array<bool, kBarriers> any{};      // whether a predicate held for one that has arrived
  std::array<int, kBarriers> expected{};  // of them, before the barrier opens; 0: all that have not ended
};

// What an instruction finds wrong; run() says where.
struct LaneFault {
  int lane;
  std::string what;
};

// Bytes at an address of this block's shared memory or, if `address` came from mapa, of another of the cluster:
// (rank + 1) << 24 plus the address there. Throws LaneFault.
struct SharedPlace {
  Block* block;
  u32 at;  // in Block::shared
};
SharedPlace shared_place(Warp& warp, int lane, u64 address, std::size_t bytes);

// A turn of a warp: at most so many instructions, and some more. Says whether it executed any. Throws Fault.
bool run(Warp& warp, int most_instructions);

// Where its lanes are, for a message.
std::string describe(const Warp& warp);

}  // namespace onchip::ptx
