// SPDX-License-Identifier: Apache-2.0
// Before a recurrence, on the device: the fragments of W or its transpose as the SMs load them, an empty ring, and rows of
// the caller's as the products read them.
//
//   packed   [kSms] of [kWarps][kRegisterTiles], then [kWarps][kSharedTiles] tiles of [32 lanes] 16 bytes
#pragma once

#include "kernels/dense/multiply.cuh"
#include "kernels/training/device/rows.cuh"
#include "kernels/training/device/shape.cuh"
#include "kernels/training/device/stack.cuh"

// The weight in an SM's row and column; zero where there is none.
__device__ __forceinline__ u32 weight(const void* weights, bool is_of_below, int sm, int row, int column) {
  long long index;
  bool exists;
  if constexpr (kIsBackward) {
    const int plane = column / (kPlaneSpans * kSpanUnits), in_plane = column % (kPlaneSpans * kSpanUnits);
    const int value = sm % kSplit * kPlaneValues + in_plane, gate = kPlanes == 1 ? value % kUnitValues : plane;
    const int unit = sm / kSplit * kUnitsPerSm + row, from = value / kUnitValues;
    exists = unit < kHidden && from < kHidden && in_plane < kPlaneValues;
    index = (gate * static_cast<long long>(kHidden) + from) * kHidden + unit;
  } else {
    const int unit = sm * kUnits + row / kGates;
    int gate = row % kGates;
    exists = unit < kHidden && column < kHidden;
    if constexpr (kLayers > 1) {
      exists = exists && weights != nullptr && (kCell == kLstm || gate < 2 || is_of_below == (gate == 3));
      gate = kCell == kGru && gate == 3 ? 2 : gate;
    }
    index = (gate * static_cast<long long>(kHidden) + unit) * kHidden + column;
  }
  return exists ? load_element(weights, index) : 0;
}
__device__ __forceinline__ u32 weight_pair(const void* weights, bool is_of_below, int sm, int row, int column) {
  return weight(weights, is_of_below, sm, row, column) | weight(weights, is_of_below, sm, row, column + 1) << 16;
}

// Lane 4 g + q has of a tile, which is half a span, rows 2 g and 2 g + 1, and four columns from 8 q on, or 8 q + 4.
__device__ __forceinline__ void pack_tile(const Arguments& a, int of_layer, int sm, int warp, int tile, int lane) {
  const int span = warp % kSourceWarps * kWarpSpans + tile / (kSpanTiles * kRowTiles);
  const int row = tile % kRowTiles * 16 + lane / 4 * 2;
  const int column = span * kSpanUnits + lane % 4 * 8 + tile / kRowTiles % kSpanTiles * 4;
  const bool is_of_below = warp >= kSourceWarps;
  const void* const weights = weights_of(a, of_layer, is_of_below);
  const auto pair = [&](int of_row, int of_column) { return weight_pair(weights, is_of_below, sm, of_row, of_column); };
  Word v{};
  if (span < kStateSpans && row < kRows) {
    v = {pair(row, column), pair(row + 1, column), pair(row, column + 2), pair(row + 1, column + 2)};
  }
  const int before = shared_before(tile);
  const int place =
      in_shared(tile) ? kWarps * kRegisterTiles + warp * kSharedTiles + before : warp * kRegisterTiles + tile - before;
  const long long of_sm = (static_cast<long long>(of_layer) * kSms + sm) * (kWarps * kTiles);
  reinterpret_cast<Word*>(a.packed)[(of_sm + place) * 32 + lane] = v;
}

extern "C" __global__ void prepare(const Arguments a) {
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
#pragma unroll 1
  for (long long i = first; a.weights != nullptr && i < static_cast<long long>(kLayers) * kSms * kWarps * kTiles * 32; i += threads) {
    const int tile = static_cast<int>(i / 32), sm = tile / (kWarps * kTiles), of_layer = kLayers == 1 ? 0 : sm / kSms;
    pack_tile(a, of_layer, sm - of_layer * kSms, tile / kTiles % kWarps, tile % kTiles, static_cast<int>(i % 32));
  }
  clear_progress(a, first, threads);
  // What is nobody's stays zero; a word of the rest is all ones until it is published.
  constexpr int kWordValues = 16 / kElementBytes;
#pragma unroll 1
  for (long long i = first; i < kLayers * kRingBytes / 16; i += threads) {
    const int in_state = static_cast<int>(i % (kStateStride / 16));
    const int span = in_state / (kSpanBytes / 16);
    const int value = span % kPlaneSpans * kSpanUnits + in_state % (kSpanUnits / kWordValues) * kWordValues;
    const u32 empty = span < kSplit * kStateSpans && value < kPlaneValues ? ~0u : 0;
    reinterpret_cast<Word*>(a.ring)[i] = {empty, empty, empty, empty};
  }
  copy_all_rows(a, static_cast<int>(first), static_cast<int>(threads));
  if constexpr (kHasLengths && !kIsBackward) {
    clear_beyond_ends(a, first, threads);
  }
  if (!kIsBackward && a.keeps) {
    clear_behind_q(a, first, threads);
  }
}

// Behind the products.
extern "C" __global__ void copy_back(const Arguments a) {
  copy_all_rows(a, static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), static_cast<int>(gridDim.x * blockDim.x));
}
