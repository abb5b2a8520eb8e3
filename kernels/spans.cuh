// SPDX-License-Identifier: Apache-2.0
// The state of the dense persistent kernel, in the order in which the tensor cores take it: spans of 32 units, of each
// sample one after another.
//
//   state   [kSpans][kBatch][32]
//
// A lane of a warp loads 16 bytes, 8 neighbouring units of a sample: what it has to hold of two B fragments (16 units x 8
// samples each) of mma.m16n8k16, if the columns of W stand in the order of spans too (model/fragments.hpp).

constexpr int kSpanUnits = 32;
constexpr int kSpans = (kStateUnits + kSpanUnits - 1) / kSpanUnits;
constexpr int kSpanBytes = kBatch * kSpanUnits * kElementBytes;
constexpr int kStateBytes = kSpans * kSpanBytes;
constexpr int kStateWords = kStateBytes / 16;

// Element index of (unit, sample) in a state.
__device__ __forceinline__ int state_index(int unit, int sample) {
  return (unit / kSpanUnits * kBatch + sample) * kSpanUnits + unit % kSpanUnits;
}
