// SPDX-License-Identifier: Apache-2.0
// What kernels of single steps share: which rows of the weights a unit's sums have, their products, and the cell.
//
//   sums    of a unit: LSTM i f g o; GRU r, z, W_hn h, W_in x
#pragma once

#include "kernels/persistent/activation.cuh"
#include "kernels/persistent/elements.cuh"

constexpr int kSums = 4;
constexpr int kTileUnits = 4, kTileRows = kTileUnits * kSums;  // of an mma

// Of a sum of a unit by x, or by h: its row of the weights, or -1.
__device__ __forceinline__ int weight_row(int unit, int sum, bool is_state) {
  const bool is_there = kCell == kLstm || sum < 2 || (sum == 2) == is_state;
  const int gate = kCell == kGru && sum == 3 ? 2 : sum;
  return unit < kHidden && is_there ? gate * kHidden + unit : -1;
}

__device__ __forceinline__ void multiply(float (&sum)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  if constexpr (kPrecision == kBf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

__device__ __forceinline__ float value(const void* of, long long index) {
  if (of == nullptr) {
    return 0.0f;
  }
  const u32 bits = load_element(of, index);
  return element(&bits, 0);
}

// The next state of a unit of a sample, of its sums with their biases; `carry`, c or of a GRU h, becomes the next one.
__device__ __forceinline__ float next_state(const float (&sums)[kSums], float& carry) {
  if constexpr (kCell == kLstm) {
    const float in = squash(sums[0], false), forget = squash(sums[1], false);
    const float candidate = squash(sums[2], true), out = squash(sums[3], false);
    carry = fmaf(forget, carry, in * candidate);
    return out * squash(carry, true);
  } else {
    const float reset = squash(sums[0], false), update = squash(sums[1], false);
    const float candidate = squash(fmaf(reset, sums[2], sums[3]), true);
    carry = fmaf(update, carry - candidate, candidate);
    return carry;
  }
}

// Of a sum of a unit.
__device__ __forceinline__ float bias(const void* b_ih, const void* b_hh, int unit, int sum) {
  const int gate = kCell == kGru && sum == 3 ? 2 : sum;
  const float of_input = kCell == kGru && sum == 2 ? 0.0f : value(b_ih, gate * kHidden + unit);
  return of_input + (kCell == kGru && sum == 3 ? 0.0f : value(b_hh, gate * kHidden + unit));
}
