// SPDX-License-Identifier: Apache-2.0
// Single instructions that the compiler has no function for.
#pragma once

#include "kernels/persistent/elements.cuh"

__device__ __forceinline__ float load_shared_float(u32 address) {
  float f;
  capture(kLoads, 4, address, true);
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(f) : "r"(address) : "memory");
  return f;
}
__device__ __forceinline__ int load_shared_int(u32 address) {
  int i;
  capture(kLoads, 4, address, true);
  asm volatile("ld.shared.s32 %0, [%1];" : "=r"(i) : "r"(address) : "memory");
  return i;
}
// Loads under a predicate; without it, zero.
__device__ __forceinline__ Word load_shared_if(bool condition, u32 address) {
  Word v{};
  capture(kLoads, 16, address, condition);
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p ld.shared.v4.u32 {%0, %1, %2, %3}, [%4]; }"
               : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
               : "r"(address), "r"(static_cast<u32>(condition))
               : "memory");
  return v;
}
__device__ __forceinline__ float load_shared_float_if(bool condition, u32 address) {
  float f = 0.0f;
  capture(kLoads, 4, address, condition);
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.shared.f32 %0, [%1]; }"
               : "+f"(f)
               : "r"(address), "r"(static_cast<u32>(condition))
               : "memory");
  return f;
}
// An element's bits.
__device__ __forceinline__ u32 load_shared_element(u32 address) {
  if constexpr (kElementBytes == 4) {
    return load_shared_int(address);
  } else {
    u16 half;
    capture(kLoads, 2, address, true);
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(half) : "r"(address));
    return half;
  }
}

__device__ __forceinline__ void store_shared_float(u32 address, float f) {
  capture(kStores, 4, address, true);
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(f) : "memory");
}
__device__ __forceinline__ void store_shared_int(u32 address, int i) {
  capture(kStores, 4, address, true);
  asm volatile("st.shared.s32 [%0], %1;" ::"r"(address), "r"(i) : "memory");
}

// Stores under a predicate: where the compiler makes a branch of it, what leads up to the store waits behind the branch.
__device__ __forceinline__ void store_shared_if(bool condition, u32 address, const Word& v) {
  capture(kStores, 16, address, condition);
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %5, 0; @p st.shared.v4.u32 [%0], {%1, %2, %3, %4}; }" ::"r"(address),
      "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(static_cast<u32>(condition))
      : "memory");
}
__device__ __forceinline__ void store_shared_if(bool condition, u32 address, float f) {
  capture(kStores, 4, address, condition);
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p st.shared.f32 [%0], %1; }" ::"r"(address), "f"(f),
               "r"(static_cast<u32>(condition))
               : "memory");
}
__device__ __forceinline__ void store_element_if(bool condition, u32 address, u32 bits) {
  capture(kStores, kElementBytes, address, condition);
  if constexpr (kElementBytes == 4) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p st.shared.u32 [%0], %1; }" ::"r"(address), "r"(bits),
                 "r"(static_cast<u32>(condition))
                 : "memory");
  } else {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p st.shared.u16 [%0], %1; }" ::"r"(address),
                 "h"(static_cast<u16>(bits)), "r"(static_cast<u32>(condition))
                 : "memory");
  }
}

// The same value, of which the compiler knows nothing: it keeps the register instead of computing it again, from special
// registers that take 20 cycles and more to read.
__device__ __forceinline__ u32 kept(u32 value) {
  asm volatile("" : "+r"(value));
  return value;
}

// Asynchronous copies to shared memory, 4, 8 or 16 bytes; groups of them end in order.
__device__ __forceinline__ void copy_4(u32 to, const char* from) {
  capture(kCopies, 4, to, true);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_8(u32 to, const char* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_16(u32 to, const char* from) {
  capture(kCopies, 16, to, true);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

