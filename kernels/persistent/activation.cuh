// SPDX-License-Identifier: Apache-2.0
// tanh and sigmoid, good to 1e-6: far below the rounding of a 16-bit state. fp32 states get the library's.
#pragma once

#include "kernels/persistent/types.cuh"

__device__ __forceinline__ float quick_sigmoid(float s) {
  float e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(-1.44269504f * s));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + e));
  return r;
}
__device__ __forceinline__ float squash(float s, bool to_tanh) {
  if constexpr (kPrecision == kFp32) {
    const float t = tanhf(to_tanh ? s : 0.5f * s);
    return to_tanh ? t : fmaf(0.5f, t, 0.5f);
  } else {
    const float y = quick_sigmoid(to_tanh ? 2.0f * s : s);
    return to_tanh ? fmaf(2.0f, y, -1.0f) : y;
  }
}
