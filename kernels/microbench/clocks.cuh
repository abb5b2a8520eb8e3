// SPDX-License-Identifier: Apache-2.0
// The SM's cycles, and the GPU's time.
#pragma once

__device__ __forceinline__ long long read_cycles() {
  long long t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
  return t;
}
__device__ __forceinline__ long long read_nanoseconds() {
  long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}

// [warps][2], of a block: when each warp began, and that it ends now.
__device__ __forceinline__ void keep_clocks(long long* clocks, long long start) {
  const long long end = read_cycles();
  if (threadIdx.x % 32 == 0) {
    clocks[2 * (threadIdx.x / 32)] = start;
    clocks[2 * (threadIdx.x / 32) + 1] = end;
  }
}
