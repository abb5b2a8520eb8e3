// SPDX-License-Identifier: Apache-2.0
// The state of the sparse persistent kernel: in planes of what one load fetches of a unit, so that the loads reach every
// bank.
//
//   state   [kPlanes][kStateUnits][kPlaneSamples]
#pragma once

#include "kernels/persistent/state.cuh"

constexpr int kPlaneUnitBytes = ONCHIP_PLANE_UNIT_BYTES;  // what one load fetches of a unit
constexpr int kUnitBytes = kBatchPadded * kElementBytes;
constexpr int kPlanes = kUnitBytes / kPlaneUnitBytes;
constexpr int kPlaneSamples = kBatchPadded / kPlanes;
constexpr int kPlaneWords = kStateUnits * kPlaneUnitBytes / 16;  // 16-byte words
constexpr int kStateWords = kPlanes * kPlaneWords;
// Bytes from one state to the next: whole lines of L2. On an H200 a state that begins within a line costs 0.07 to 0.14 us.
constexpr int kStateStride = (kStateWords + kLineWords - 1) / kLineWords * 128;

static_assert(kUnitsPerSm * kPlaneUnitBytes % 16 == 0, "an SM owns whole 16-byte words of the state");

// Element index of (unit, sample) in a state whose planes hold `plane_units` units.
__device__ __forceinline__ int state_index(int unit, int sample, int plane_units = kStateUnits) {
  return (sample / kPlaneSamples * plane_units + unit) * kPlaneSamples + sample % kPlaneSamples;
}
