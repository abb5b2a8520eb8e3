// SPDX-License-Identifier: Apache-2.0
// The state of the dense persistent kernel, in the order in which the tensor cores take it: spans of 32 units, of each
// sample one after another.
//
//   state   [kBatchGroups][kSpans][kGroupBatch][32]
//
// A lane of a warp loads 16 bytes, 8 neighbouring units of a sample: what it has to hold of two B fragments (16 units x 8
// samples each) of mma.m16n8k16, or of one (32 units) of mma.sp.m16n8k32, if the columns of W stand in the order of spans
// too (model/dense/fragments.hpp). Were the samples of 8 units stored one after another, so that what an SM stores lies
// together, a quarter of a warp's load would touch four lines.
#pragma once

#include "kernels/persistent/state.cuh"

constexpr Storage kStorage = static_cast<Storage>(ONCHIP_STORAGE);
constexpr bool kIsStructured = kStorage == kStructured24;
constexpr int kBatchGroups = ONCHIP_BATCH_GROUPS;
constexpr int kGroupBatch = kBatch / kBatchGroups;  // samples of a batch group
static_assert(kGroupBatch * kBatchGroups == kBatch, "batch groups have equally many samples");

constexpr int kSpanUnits = 32;
constexpr int kSpans = (kStateUnits + kSpanUnits - 1) / kSpanUnits;
constexpr int kSpanBytes = kGroupBatch * kSpanUnits * kElementBytes;
constexpr int kStateBytes = kSpans * kSpanBytes;                      // of a batch group
constexpr int kGroupStride = (kStateBytes / 16 + kLineWords - 1) / kLineWords * 128;  // whole lines of L2, see planes.cuh
constexpr int kStateStride = kBatchGroups * kGroupStride;              // from one step to the next

constexpr int kStateWords = kStateStride / 16;

// Place of a unit in its span; see model/dense/fragments.hpp.
__device__ __forceinline__ int place_in_span(int unit) {
  const int in_span = unit % kSpanUnits;
  return kIsStructured ? (in_span & 17) | (in_span & 12) >> 1 | (in_span & 2) << 2 : in_span;
}
// Element index of (unit, sample) in a batch group's state.
__device__ __forceinline__ int index_in_group(int unit, int sample) {
  return (unit / kSpanUnits * kGroupBatch + sample) * kSpanUnits + place_in_span(unit);
}
// The same in the states of all batch groups.
__device__ __forceinline__ int state_index(int unit, int sample) {
  return sample / kGroupBatch * (kGroupStride / kElementBytes) +
         in_l2(kElementBytes * index_in_group(unit, sample % kGroupBatch)) / kElementBytes;
}
