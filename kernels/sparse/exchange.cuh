// SPDX-License-Identifier: Apache-2.0
// The state on its way between the SMs of the sparse persistent kernel (protocol.cuh), in whole 16-byte words: into shared
// memory before a step, out of an outbox in shared memory after it. Words are moved by scalar 128-bit accesses, one memory
// operation each, so 4 of the bytes speak for all.
#pragma once

#include "kernels/persistent/protocol.cuh"
#include "kernels/sparse/shape.cuh"
#include "kernels/sparse/stage_words.cuh"

// Where word i of a state goes in shared memory.
__device__ __forceinline__ u32 staged_at(int i) {
  int gap = 0;
  if constexpr (kPlanes == 2) {
    gap = i >= kPlaneWords ? kZeroUnits * kPlaneUnitBytes : 0;
  } else if constexpr (kPlanes > 2) {
    gap = i / kPlaneWords * (kZeroUnits * kPlaneUnitBytes);
  }
  return 16 * i + gap;
}

__device__ __forceinline__ void stage(const char* from, u32 to, int thread, int& polls) {
  stage_rounds<kStateWords, kLoadsInFlight, staged_at>(from, to, thread, polls);
}

// Where word i of this SM's outbox belongs in a state.
__device__ __forceinline__ long long outbox_offset(int i) {
  const int plane = kPlanes == 1 ? 0 : i / kOutboxPlaneWords;
  return in_l2(16 * (plane * kPlaneWords + static_cast<int>(blockIdx.x) * kOutboxPlaneWords + (i - plane * kOutboxPlaneWords)));
}

// Publishes word i of the outbox of step t, and empties its place of a later step.
__device__ __forceinline__ void emit(char* to, int i, u32 shared, int t, int steps) {
  store_relaxed(to, load_shared(shared + kOutboxAt + 16 * i));
  if (kExchange == kLamport && t + 1 + kAhead <= steps) {
    store_relaxed(to + static_cast<long long>(kAhead) * kStateStride, {~0u, ~0u, ~0u, ~0u});
  }
}
