// SPDX-License-Identifier: Apache-2.0
// Elements of a state and its input, of the shape's kPrecision.
#pragma once

#include "kernels/persistent/types.cuh"
#include "kernels/persistent/word.cuh"

__device__ __forceinline__ float fp16_to_float(u16 x) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x));
  return f;
}

// Element i of a packed vector as fp32.
__device__ __forceinline__ float element(const u32* packed, int i) {
  if constexpr (kPrecision == kFp32) {
    return __uint_as_float(packed[i]);
  } else if constexpr (kPrecision == kBf16) {
    return __uint_as_float(i % 2 ? packed[i / 2] & 0xffff0000u : packed[i / 2] << 16);
  } else {
    return fp16_to_float(static_cast<u16>(i % 2 ? packed[i / 2] >> 16 : packed[i / 2]));
  }
}

// An element's bits; to be converted where it is used, not where it is loaded, so that nothing waits for the load.
__device__ __forceinline__ u32 load_element(const void* base, long long index) {
  if constexpr (kPrecision == kFp32) {
    return static_cast<const u32*>(base)[index];
  } else {
    return static_cast<const u16*>(base)[index];
  }
}

// The bits of a value in the state's precision; a NaN becomes the canonical one, which is never "empty".
__device__ __forceinline__ u32 to_bits(float f) {
  if constexpr (kPrecision == kFp32) {
    return f != f ? 0x7fffffffu : __float_as_uint(f);
  } else {
    u16 bits;
    if constexpr (kPrecision == kBf16) {
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(f));
    } else {
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f));
    }
    return bits;
  }
}

__device__ __forceinline__ u32 canonical(u32 bits) { return to_bits(element(&bits, 0)); }

__device__ __forceinline__ void store_element(void* base, long long index, u32 bits) {
  if constexpr (kPrecision == kFp32) {
    static_cast<u32*>(base)[index] = bits;
  } else {
    static_cast<u16*>(base)[index] = static_cast<u16>(bits);
  }
}
