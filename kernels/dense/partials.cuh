// SPDX-License-Identifier: Apache-2.0
// The warps' sums in shared memory, as combine.cuh lays them: every warp stores its own, a thread adds up the shape's
// kThreadRows rows of one sample. Sums are those of multiply.cuh, or alike.
#pragma once

#include "kernels/persistent/memory.cuh"

constexpr int kPartialRows = 16 * kRowTiles + 4;
constexpr int kPartialBytes = 4 * 8 * kSampleTiles * kPartialRows;  // of one warp
constexpr int kBusyWarps = (kSpans + kWarpSpans - 1) / kWarpSpans;  // that have spans

__device__ __forceinline__ void store_partials(u32 partials, const Sums& sums, int lane) {
  const u32 to = partials + 4 * (lane % 4 * 2 * kPartialRows + lane / 4 * 2);
#pragma unroll
  for (int row = 0; row < kRowTiles; ++row) {
#pragma unroll
    for (int j = 0; j < kSampleTiles; ++j) {
      float sum[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        sum[k] = sums.of[0][row][j][k];
#pragma unroll
        for (int chain = 1; chain < kChains; ++chain) {
          sum[k] += sums.of[chain][row][j][k];
        }
      }
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + 4 * ((8 * j + k) * kPartialRows + 16 * row)),
                     "f"(sum[k]), "f"(sum[2 + k])
                     : "memory");
      }
    }
  }
}

// kThreadRows neighbouring rows of one sample in one warp's sums.
__device__ __forceinline__ void load_partial(u32 address, float (&rows)[kThreadRows]) {
  if constexpr (kThreadRows == 2) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(rows[0]), "=f"(rows[1]) : "r"(address) : "memory");
  } else if constexpr (kThreadRows == 4) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(rows[0]), "=f"(rows[1]), "=f"(rows[2]), "=f"(rows[3])
                 : "r"(address)
                 : "memory");
  } else {
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      rows[r] = load_shared_float(address + 4 * r);
    }
  }
}

// The sums over warps [kFirst, kFirst + kCount), always in the same order, halves first: as few additions after one
// another as can be.
template <int kFirst, int kCount>
__device__ __forceinline__ void sum_partials(u32 address, float (&rows)[kThreadRows]) {
  if constexpr (kCount == 1) {
    load_partial(address + kFirst * kPartialBytes, rows);
  } else {
    float others[kThreadRows];
    sum_partials<kFirst, kCount / 2>(address, rows);
    sum_partials<kFirst + kCount / 2, kCount - kCount / 2>(address, others);
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      rows[r] += others[r];
    }
  }
}

// All of them.
struct SumOfWarps {
  __device__ __forceinline__ void operator()(u32 address, float (&rows)[kThreadRows]) const {
    sum_partials<0, kBusyWarps>(address, rows);
  }
};
