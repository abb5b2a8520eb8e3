// SPDX-License-Identifier: Apache-2.0
// A barrier of the blocks of threads of a team, for feed_forward_streamed.cu: arrivals are counted, and waited for later.
#pragma once

#include "kernels/feed_forward/device/streamed_shape.cuh"

__device__ inline void add_release(u32* arrivals, u32 many) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(arrivals), "r"(many) : "memory");
}
__device__ inline void arrive(u32* arrivals) {
  __syncthreads();
  if (threadIdx.x == 0) {
    add_release(arrivals, 1);
  }
}
// Whether the tile has ended before.
__device__ inline bool wait(const u32* arrivals, u32 times) {
  u32 seen = 0;
  if (threadIdx.x == 0) {
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrivals) : "memory");
    } while (seen < times * kTeam);
  }
  if (kSettles) {
    return __syncthreads_or(seen >= kSettled);
  }
  __syncthreads();
  return false;
}
