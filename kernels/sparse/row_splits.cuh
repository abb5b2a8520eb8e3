// SPDX-License-Identifier: Apache-2.0
// Rows that are longer than most, split.
//
// A row has kSlots[row] slots in every lane of its group. What is beyond them is cut into splits of as many slots each,
// kSlots[kRowsPerGroup + split], and every group of the block multiplies kRowSplits of them, whoever's they are, before
// its own rows. Their sums meet in shared memory:
//
//   every group    gather and reduce splits of all passes | gather the first tile | sums of splits -> smem | block barrier
//                  | to the lanes' sums of a row those of its splits | reduce, finish, next tile ...
//
// With pipelined passes (pipeline.cuh) every pass does so for itself, and the barrier is one of the warps that compute.
//
// The sums of splits are stored only after the tile's gathers, or the compiler would hold the gathers back. Slots that no
// row of a warp needs are not left out by branches: at every branch the loads under way run out.
//
// Where registers do not hold all, splits have overflow as rows have (gather.cuh), or rows have it and splits do not;
// both together take code for each, of which the instruction cache holds little. Splits that are stored as distances
// begin each where it begins, with the word that says where.
//
//   sums    float [kRowSplits][kGroups][kBatchPadded]; split number p * kGroups + g is the p-th of group g
//   table   int [kUnitsPerSm][kGates]: of each row the number of its first split | how many << 16; they are neighbours
#pragma once

#include "kernels/persistent/launch.cuh"
#include "kernels/sparse/reduce.cuh"
#include "kernels/sparse/regions.cuh"

#if ONCHIP_ROW_SPLITS != 0

constexpr int kSplitValues = kRowSplits * kPassSamples;  // sums of a group's splits, of one pass: [kPassSamples][kRowSplits]
static_assert((kRowSplits & (kRowSplits - 1)) == 0, "reduced together");
static_assert(kStorage != kDense, "any non-zero may stand in any split: its slot does not say its column");

__device__ __forceinline__ void load_split_table(const Arguments& a, u32 shared, int thread) {
  const int* const table = a.overflow + (kHasOverflow ? kBlocks * (kOverflowInts + 2 * kWarps) : 0);
#pragma unroll 1
  for (int i = thread; i < kUnitsPerSm * kGates; i += kThreads) {
    store_shared_int(shared + kSplitTableAt + 4 * i, table[blockIdx.x * (kUnitsPerSm * kGates) + i]);
  }
}

template <int kPass, int kSplit = 0>
__device__ __forceinline__ void gather_splits(Weights& w, const Step& step, float (&sum)[kSplitValues]) {
  if constexpr (kSplit < kRowSplits) {
    constexpr int row = kRowsPerGroup + kSplit;
    int chunks = 0;
    if constexpr (kSplitsOverflow) {
      chunks = load_shared_int(step.kept_shared + kOverflowAt + 4 * ((row + 1) * kWarps + step.thread / 32));
    }
    const u32 offset = gather_registers<row, kPass, kRowSplits>(w, step.shared, step.lane, kSplit, sum);
    if constexpr (kSplitsOverflow) {
      gather_overflow<kPass>(w, chunks, step.shared, offset, kSplit, step.thread % 32, sum);
    }
    gather_splits<kPass, kSplit + 1>(w, step, sum);
  }
}

constexpr int kHeldSplits = kSplitValues > kLanesPerRow ? kSplitValues / kLanesPerRow : 1;  // by a lane, once reduced
struct SplitSums {
  float of[kPasses][kHeldSplits];
};

// This group's splits, in passes [kPass, kEnd). Nothing is stored yet: the compiler would hold back the tile's gathers
// until it is.
template <int kPass, int kEnd>
__device__ __forceinline__ void multiply_splits(Weights& w, const Step& step, SplitSums& sums) {
  if constexpr (kPass < kEnd) {
    float sum[kSplitValues] = {};
    const u32 begin = w.chunk;
    gather_splits<kPass>(w, step, sum);
    if constexpr (kPass + 1 < kEnd) {
      w.chunk = begin;  // the next pass takes the same chunks again
    }
    reduce<kSplitValues, 1>(sum, step.lane);
#pragma unroll
    for (int i = 0; i < kHeldSplits; ++i) {
      sums.of[kPass][i] = sum[i];
    }
    multiply_splits<kPass + 1, kEnd>(w, step, sums);
  }
}

template <int kPass, int kEnd>
__device__ __forceinline__ void store_splits(const Step& step, const SplitSums& sums) {
#pragma unroll
  for (int pass = kPass; pass < kEnd; ++pass) {
#pragma unroll
    for (int i = 0; i < kHeldSplits; ++i) {
      const int value = (step.lane & (kSplitValues - 1)) + i * kLanesPerRow;
      const int number = value % kRowSplits * kGroups + step.group;
      const int sample = pass * kPassSamples + value / kRowSplits;
      store_shared_if(step.lane < kSplitValues, step.kept_shared + kSplitSumsAt + 4 * (number * kBatchPadded + sample),
                      sums.of[pass][i]);
    }
  }
}

// The splits of a tile's rows: first split | how many << 16.
template <int kTile>
__device__ __forceinline__ void find_splits(const Step& step, int (&splits)[kTileHeight]) {
#pragma unroll
  for (int row = 0; row < kTileHeight; ++row) {
    const int unit = (kGates == 1 ? kTile * kTileRows + row : kTile) * kGroups + step.group;
    const bool exists = unit < kUnitsPerSm && kTile * kTileHeight + row < kRowsPerGroup;
    const int place = kGates == 1 ? 0 : row;
    splits[row] = load_shared_int(step.kept_shared + kSplitTableAt + 4 * ((exists ? unit : 0) * kGates + place));
    splits[row] = exists ? splits[row] : 0;
  }
}

// The sums of all samples of a pass, of one split; zero if there is none.
__device__ __forceinline__ void load_split_sums(bool exists, u32 address, float (&v)[kPassSamples]) {
  if constexpr (kPassSamples >= 4) {
#pragma unroll
    for (int b = 0; b < kPassSamples; b += 4) {
      const Word word = load_shared_if(exists, address + 4 * b);
      v[b] = __uint_as_float(word.x);
      v[b + 1] = __uint_as_float(word.y);
      v[b + 2] = __uint_as_float(word.z);
      v[b + 3] = __uint_as_float(word.w);
    }
  } else {
#pragma unroll
    for (int b = 0; b < kPassSamples; ++b) {
      v[b] = load_shared_float_if(exists, address + 4 * b);
    }
  }
}

// Of each row of a tile the i-th split, in lane i.
template <int kPass>
__device__ __forceinline__ void add_split(const Step& step, const int (&splits)[kTileHeight], int i, float (&sum)[kValues]) {
  float split_sums[kTileHeight][kPassSamples];
#pragma unroll
  for (int row = 0; row < kTileHeight; ++row) {
    const int number = (splits[row] & 0xffff) + i;
    load_split_sums(i < splits[row] >> 16,
                  step.kept_shared + kSplitSumsAt + 4 * (number * kBatchPadded + kPass * kPassSamples), split_sums[row]);
  }
#pragma unroll
  for (int row = 0; row < kTileHeight; ++row) {
#pragma unroll
    for (int b = 0; b < kPassSamples; ++b) {
      sum[b * kTileRows + row] += split_sums[row][b];
    }
  }
}

// After the block's barrier: the lanes of a group divide the sums of its rows' splits among them, and add them to their
// own, which are reduced together. Few rows have more splits than a group has lanes: only those come to the loop, and the
// others' loads are on their way while the last products are added up.
template <int kPass>
__device__ __forceinline__ void add_splits(const Step& step, const int (&splits)[kTileHeight], float (&sum)[kValues]) {
  add_split<kPass>(step, splits, step.lane, sum);
  int most = 0;
#pragma unroll
  for (int row = 0; row < kTileHeight; ++row) {
    most = max(most, splits[row] >> 16);
  }
#pragma unroll 1
  for (int first = kLanesPerRow; first < most; first += kLanesPerRow) {
    add_split<kPass>(step, splits, first + step.lane, sum);
  }
  __syncwarp();
}

#endif
