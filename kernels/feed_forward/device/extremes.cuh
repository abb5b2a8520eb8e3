// SPDX-License-Identifier: Apache-2.0
// Which of a tile's images are alive, and which have a feature below the clip, for feed_forward_streamed.cu.
#pragma once

#include "kernels/feed_forward/device/fragments.cuh"
#include "kernels/feed_forward/device/streamed_shape.cuh"

// What a lane has seen of its columns.
struct Extremes {
  u32 any[2][kPairs];    // values, or-ed
  u32 least[2][kPairs];  // smallest values, fp16
};

__device__ inline Extremes nothing_seen() {
  Extremes extremes;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      extremes.any[j][p] = 0;
      extremes.least[j][p] = kLargest;
    }
  }
  return extremes;
}

// Adds what this warp's lanes have seen to the bits of a tile's images.
__device__ inline void mark(const Extremes& extremes, u32 settled, u64* alive, u64* unsettled) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    u32 lives = 0, below = 0;  // a bit per group
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const u32 any = extremes.any[j][p], least = extremes.least[j][p];
      lives |= ((any & 0xffff) ? 1u : 0u) << (2 * p) | ((any >> 16) ? 1u : 0u) << (2 * p + 1);
      below |= ((least & 0xffff) < settled ? 1u : 0u) << (2 * p) | ((least >> 16) < settled ? 1u : 0u) << (2 * p + 1);
    }
#pragma unroll
    for (int step = 4; step < 32; step *= 2) {
      lives |= __shfl_xor_sync(~0u, lives, step);
      below |= __shfl_xor_sync(~0u, below, step);
    }
    if (lane < 4) {
      const int first = (2 * lane + j) * kGroups;  // image
      if (lives) {
        atomicOr(reinterpret_cast<u32*>(alive) + first / 32, lives << first % 32);
      }
      if (unsettled != nullptr && below) {
        atomicOr(reinterpret_cast<u32*>(unsettled) + first / 32, below << first % 32);
      }
    }
  }
}
