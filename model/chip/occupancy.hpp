// SPDX-License-Identifier: Apache-2.0
// How many blocks of a kernel are resident on one SM at the same time: the smallest of four limits.
//
//   threads        floor(warps per SM / warps per block)
//   blocks         the hardware's number of block slots
//   registers      floor(warps that the register files hold / warps per block); a warp's registers are allocated in
//                  whole units, from the register file of one partition
//   shared memory  floor(bytes per SM / (bytes per block + reserved bytes, in whole units))
//
// Rules: CUDA C++ Programming Guide, "Hardware multithreading", and the toolkit's occupancy calculator, whose results
// the tests compare with these.
#pragma once

#include "model/chip/chip.hpp"

#include <cstdint>
#include <string_view>

namespace onchip {

inline constexpr int kWarpThreads = 32;

struct BlockResources {
  int threads = 0;
  int registers_per_thread = 0;
  long smem_bytes = 0;  // static and dynamic together, without what the system reserves
};

enum class OccupancyLimit : std::uint8_t { threads, blocks, registers, shared_memory };

std::string_view name(OccupancyLimit limit);

struct Occupancy {
  int blocks_per_sm = 0;                          // 0: not even one block fits
  OccupancyLimit limit = OccupancyLimit::blocks;  // the smallest limit; of equal ones the first in OccupancyLimit
};

// Expects threads >= 1 and no negative resource.
Occupancy occupancy(const Chip& chip, const BlockResources& block);

// The most registers per thread with which `blocks` blocks of `threads` threads are resident on one SM: the cap that
// the compiler must keep. A multiple of 8 (the allocation unit spread over a warp), or the chip's limit per thread
// (255) where that is lower. 0 if no number of registers makes the blocks fit.
int max_registers_per_thread(const Chip& chip, int threads, int blocks = 1);

}  // namespace onchip
