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
