// SPDX-License-Identifier: Apache-2.0
// What threads finish goes straight to the ring.
#pragma once

#include "kernels/training/device/item.cuh"

// Publishes what an item has of a state, and empties its place of a later one.
__device__ __forceinline__ void publish(const Item& item, long long state, int sub_batch, u32 lower, u32 upper,
                                        int plane = 0) {
  char* const to = item.words(state, sub_batch) + plane * kPlaneBytes;
  char* const later = item.words(state + kAhead, sub_batch) + plane * kPlaneBytes;
  if constexpr (kUnitValues > 1) {
    asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(lower), "r"(upper) : "memory");
    asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %1};" ::"l"(later), "r"(~0u) : "memory");
  } else {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(lower) : "memory");
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(later), "r"(~0u) : "memory");
  }
}

// Two neighbouring units to a word of state `state`.
__device__ __forceinline__ void publish_pair(const Item& item, long long state, int sub_batch, u32 bits,
                                             int plane = 0) {
  const u32 upper = __shfl_down_sync(0xffffffffu, bits, 1);
  if (item.sample < kGroupBatch && item.unit % 2 == 0 && (!kHasSpareUnits || item.unit < kPlaneValues)) {
    publish(item, state, sub_batch, bits | upper << 16, 0, plane);
  }
}
