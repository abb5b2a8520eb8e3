// SPDX-License-Identifier: Apache-2.0
// 16-byte words, and a block's shared memory.
#pragma once

#include "kernels/persistent/capture.cuh"
#include "kernels/runtime/integers.cuh"

struct __align__(16) Word {
  u32 x, y, z, w;
};

__device__ __forceinline__ void store_shared(u32 address, const Word& v) {
  capture(kStores, 16, address, true);
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ __forceinline__ Word load_shared(u32 address) {
  Word v;
  capture(kLoads, 16, address, true);
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
