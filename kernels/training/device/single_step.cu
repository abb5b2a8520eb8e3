// SPDX-License-Identifier: Apache-2.0
// A step of a layer of an LSTM or a GRU (ONCHIP_CELL) in one launch: W_ih x + W_hh h, and the cell. Each weight is read
// once, from L2 or DRAM. For sequences of so few steps that keeping weights on the chip costs more than it saves.
//
//   block   kTileUnits units: 16 rows of four sums for each; all samples
//   warp    a share of the columns of x and h, in spans of 32, of which a lane takes 8: 16 bytes of two rows of weights and
//           of one sample for each 8, the operands of two mma.m16n8k16
#include "kernels/persistent/types.cuh"
#include "kernels/training/device/arguments.hpp"

constexpr Precision kPrecision = static_cast<Precision>(ONCHIP_PRECISION);
constexpr Cell kCell = static_cast<Cell>(ONCHIP_CELL);
constexpr int kElementBytes = 2;
constexpr int kInput = ONCHIP_INPUT, kHidden = ONCHIP_HIDDEN, kBatch = ONCHIP_BATCH;

#include "kernels/training/device/step.cuh"

using Arguments = onchip::StepArguments;

constexpr int kWarps = ONCHIP_THREADS / 32;
constexpr int kTiles = (kBatch + 7) / 8;  // of samples
constexpr int kSpanColumns = 32, kLaneColumns = 8;
constexpr int kInputSpans = (kInput + kSpanColumns - 1) / kSpanColumns, kStateSpans = (kHidden + kSpanColumns - 1) / kSpanColumns;
constexpr int kAtOnce = kTiles <= 2 ? 4 : 2;  // spans whose words are on their way
constexpr int kStride = kTileRows + 4;            // floats of a sample's sums, so that stores meet no bank twice

// 8 columns of a row; zeros where there are none.
__device__ __forceinline__ Word load_columns(const void* rows, int row, int columns, int first, bool is_there, bool is_aligned) {
  Word v{};
  if (!is_there || row < 0 || first >= columns) {
    return v;
  }
  const u16* const from = static_cast<const u16*>(rows) + static_cast<long long>(row) * columns + first;
  if (is_aligned) {
    return *reinterpret_cast<const Word*>(from);
  }
  u32 words[4] = {};
#pragma unroll
  for (int i = 0; i < kLaneColumns; ++i) {
    words[i / 2] |= first + i < columns ? static_cast<u32>(from[i]) << 16 * (i % 2) : 0;
  }
  return {words[0], words[1], words[2], words[3]};
}

__device__ __forceinline__ bool is_whole(const void* rows, int columns) {
  return columns % kLaneColumns == 0 && reinterpret_cast<unsigned long long>(rows) % 16 == 0;
}

// This warp's share of rows [kTileRows] times the columns of a vector for each sample.
__device__ __forceinline__ void multiply_spans(const void* weights, const void* vectors, bool is_state, int warp, int lane,
                                               float (&sums)[kTiles][4]) {
  const int columns = is_state ? kHidden : kInput, spans = is_state ? kStateSpans : kInputSpans;
  const int row = lane / 4, first_unit = static_cast<int>(blockIdx.x) * kTileUnits;
  const bool are_weights_aligned = is_whole(weights, columns), are_vectors_aligned = is_whole(vectors, columns);
  const int lower = weight_row(first_unit + row / kSums, row % kSums, is_state);
  const int upper = weight_row(first_unit + row / kSums + kTileUnits / 2, row % kSums, is_state);
#pragma unroll 1
  for (int first = warp; first < spans; first += kWarps * kAtOnce) {
    Word w[kAtOnce][2], v[kAtOnce][kTiles];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int span = first + i * kWarps, column = span * kSpanColumns + lane % 4 * kLaneColumns;
      w[i][0] = load_columns(weights, lower, columns, column, span < spans, are_weights_aligned);
      w[i][1] = load_columns(weights, upper, columns, column, span < spans, are_weights_aligned);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int sample = 8 * tile + lane / 4;
        v[i][tile] = load_columns(vectors, sample, columns, column, span < spans && sample < kBatch, are_vectors_aligned);
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        multiply(sums[tile], w[i][0].x, w[i][1].x, w[i][0].y, w[i][1].y, v[i][tile].x, v[i][tile].y);
        multiply(sums[tile], w[i][0].z, w[i][1].z, w[i][0].w, w[i][1].w, v[i][tile].z, v[i][tile].w);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(ONCHIP_THREADS) single_step(const Arguments a) {
  __shared__ float partials[kWarps][8 * kTiles][kStride];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  float sums[kTiles][4] = {};
  multiply_spans(a.w_ih, a.x, false, warp, lane, sums);
  if (a.h != nullptr) {
    multiply_spans(a.w_hh, a.h, true, warp, lane, sums);
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      partials[warp][8 * tile + lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8] = sums[tile][i];
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int item = thread; item < kTileUnits * kBatch; item += ONCHIP_THREADS) {
    const int sample = item / kTileUnits, in_block = item % kTileUnits, unit = static_cast<int>(blockIdx.x) * kTileUnits + in_block;
    if (unit >= kHidden) {
      continue;
    }
    float all[kSums];
#pragma unroll
    for (int k = 0; k < kSums; ++k) {
      all[k] = bias(a.b_ih, a.b_hh, unit, k);
    }
#pragma unroll
    for (int of = 0; of < kWarps; ++of) {
#pragma unroll
      for (int k = 0; k < kSums; ++k) {
        all[k] += partials[of][sample][in_block * kSums + k];
      }
    }
    const long long index = static_cast<long long>(sample) * kHidden + unit;
    float carry = a.carry != nullptr ? a.carry[index] : value(kCell == kLstm ? a.c : a.h, index);
    const u32 h = to_bits(next_state(all, carry));
    store_element(a.y, index, h);
    if (a.hn != nullptr) {
      store_element(a.hn, index, h);
    }
    if (kCell == kLstm && a.cn != nullptr) {
      store_element(a.cn, index, to_bits(carry));
    }
    if (a.next_carry != nullptr) {
      a.next_carry[index] = carry;
    }
  }
}
