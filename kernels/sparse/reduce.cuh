// SPDX-License-Identifier: Apache-2.0
// The lanes of a group, and how their sums of a tile come together (cell.cuh says what a tile is).
#pragma once

#include "kernels/sparse/gather.cuh"

// The lanes of a group are spread over the phases in which shared memory serves a warp's load (model/sparse/geometry.hpp):
// which bit of the thread's number is bit k of the lane's.
constexpr int kPhases = kPlaneUnitBytes > 4 ? kPlaneUnitBytes / 4 : 1;
constexpr int kSpread = kPhases < kLanesPerRow ? kPhases : kLanesPerRow;
constexpr int kNeighbours = kLanesPerRow / kSpread;
constexpr __host__ __device__ int thread_mask(int lane_mask) {
  return lane_mask < kNeighbours ? lane_mask : lane_mask / kNeighbours * (32 / kSpread);
}

constexpr int kGroups = kThreads / kLanesPerRow;
constexpr int kOutputs = kValues > kLanesPerRow ? kValues / kLanesPerRow : 1;  // of a tile's sums per lane, once reduced
constexpr bool kOutputsOfOneRow = kLanesPerRow % kTileRows == 0;  // all that a lane finishes of a tile
static_assert(32 % kLanesPerRow == 0 && kThreads % 32 == 0, "a lane group is a power-of-two part of a warp");
static_assert(kGates == 1 || (kTileRows == 4 && kLanesPerRow >= 4), "the gates of a unit meet in four lanes");

struct Step {
  u32 shared;       // address of shared memory, as the compiler knows it: a constant that loads take for free
  u32 kept_shared;  // the same in a register
  u32 input;        // of this step's input in it
  int number;       // in the sequence, as lengths count
  int thread;
  int lane, group;
};

// While a lane holds more than one value, it gives half of them to its partner and takes the other half: with lane bit
// k, bit k of the value's number. After that, plain butterfly. Lane l of the group ends with values l % kValues, +
// kLanesPerRow, ...
template <int kCount, int kMask, int kSums>
__device__ __forceinline__ void reduce(float (&sum)[kSums], int lane) {
  if constexpr (kMask < kLanesPerRow) {
    if constexpr (kCount > 1) {
      const bool upper = lane & kMask;
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        const float keep = upper ? sum[2 * i + 1] : sum[2 * i];
        const float give = upper ? sum[2 * i] : sum[2 * i + 1];
        sum[i] = keep + __shfl_xor_sync(0xffffffffu, give, thread_mask(kMask));
      }
      reduce<kCount / 2, kMask * 2>(sum, lane);
    } else {
      sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], thread_mask(kMask));
      reduce<1, kMask * 2>(sum, lane);
    }
  }
}
