// SPDX-License-Identifier: Apache-2.0
// The state on its way, plane by plane, each of which is a pass of its own. The first is polled. The others are copied
// while it is computed, for what all SMs publish at once is there when the first plane is; what is not is polled then.
//
//   planes   [kBuffers][kStateUnits + kZeroUnits][kPlaneSamples] in shared memory: plane p in buffer p % kBuffers
//   outbox   [kPlanes][kUnitsPerSm][kPlaneSamples], behind them
#pragma once

#include "kernels/persistent/memory.cuh"
#include "kernels/persistent/protocol.cuh"
#include "kernels/sparse/stage_words.cuh"
#include "kernels/training/device/item.cuh"
#include "kernels/training/device/sparse_shape.cuh"

constexpr int kLoadsInFlight = ONCHIP_LOADS_IN_FLIGHT;
constexpr int kZeroUnits = ONCHIP_ZERO_UNITS;
constexpr int kBuffers = ONCHIP_BUFFERS;
constexpr int kPlaneBytes = (kStateUnits + kZeroUnits) * kPlaneUnitBytes;
constexpr int kOutboxPlaneWords = kUnitsPerSm * kPlaneUnitBytes / 16;
constexpr int kOutboxWords = kPlanes * kOutboxPlaneWords;
constexpr int kOutboxAt = kBuffers * kPlaneBytes;
static_assert(kBuffers == kPlanes || kBuffers > 1, "one is computed while the next is on its way");

__device__ __forceinline__ u32 staged_at(int i) {
  return i / kPlaneWords % kBuffers * kPlaneBytes + 16 * (i % kPlaneWords);
}

// Polls the first plane.
__device__ __forceinline__ void stage_first(const char* from, u32 to, int thread, int& polls) {
  stage_rounds<kPlaneWords, kLoadsInFlight, staged_at>(from, to, thread, polls);
}

// Asks for a plane, if there is one, in a group of copies of its own.
template <int kPlane>
__device__ __forceinline__ void ask_plane(const char* from, u32 to, int thread) {
  if constexpr (kPlane < kPlanes) {
#pragma unroll 4
    for (int i = thread; i < kPlaneWords; i += kThreads) {
      copy_16(to + kPlane % kBuffers * kPlaneBytes + 16 * i, from + 16 * (kPlane * kPlaneWords + i));
    }
    end_copies();
  }
}
// As many planes after the first as there are buffers for.
template <int kPlane = 1>
__device__ __forceinline__ void ask_next(const char* from, u32 to, int thread) {
  if constexpr (kPlane < kBuffers) {
    ask_plane<kPlane>(from, to, thread);
    ask_next<kPlane + 1>(from, to, thread);
  }
}
template <int kPlane>
__device__ __forceinline__ void await_plane(const char* from, u32 to, int thread, int& polls) {
  constexpr int kAsked = kPlane - 2 + kBuffers < kPlanes ? kPlane - 2 + kBuffers : kPlanes - 1;  // the last
  wait_for_copies<kAsked - kPlane>();
  // All lanes of a warp poll together, or none: they wait for each other.
  const int lane = thread % 32;
#pragma unroll 4
  for (int first = thread - lane; first < kPlaneWords; first += kThreads) {
    const bool exists = first + lane < kPlaneWords;
    const int i = exists ? first + lane : first;
    const bool misses = exists && load_shared_int(to + kPlane % kBuffers * kPlaneBytes + 16 * i) == -1;
    if (__any_sync(~0u, misses)) {
      stage_words<1, staged_at>(from, to, kPlane * kPlaneWords + i, misses, polls);
    }
  }
}

// Publishes the outbox as this SM's words of state `state`, and empties their places of a later one.
__device__ __forceinline__ void emit_outbox(const Arguments& a, u32 shared, long long state, int thread) {
  constexpr int kSharers = kBlocks / kSplit;  // SMs whose values a share of the columns has
  const int first = (static_cast<int>(blockIdx.x) / kSharers * kPlanes) * kPlaneWords +
                    static_cast<int>(blockIdx.x) % kSharers * kOutboxPlaneWords;
#pragma unroll 1
  for (int i = thread; i < kOutboxWords; i += kThreads) {
    const int plane = kPlanes == 1 ? 0 : i / kOutboxPlaneWords;
    char* const word = a.ring + 16ll * (first + plane * (kPlaneWords - kOutboxPlaneWords) + i);
    store_relaxed(word + static_cast<int>(state % kRingSlots) * kRingStride, load_shared(shared + kOutboxAt + 16 * i));
    store_relaxed(word + static_cast<int>((state + kAhead) % kRingSlots) * kRingStride, {~0u, ~0u, ~0u, ~0u});
  }
}

// ---- what threads finish goes to the outbox -----------------------------------------------------------------------------

__device__ __forceinline__ u32 shared_base() { return static_cast<u32>(__cvta_generic_to_shared(shared_memory)); }

// Value `value` of an item's unit.
__device__ __forceinline__ void to_outbox(const Item& item, int value, u32 bits) {
  const int column = item.unit % kUnits * kUnitValues + value;
  const int index = (item.sample / kPlaneSamples * kUnitsPerSm + column) * kPlaneSamples + item.sample % kPlaneSamples;
  store_element_if(true, shared_base() + kOutboxAt + kElementBytes * index, bits);
}
__device__ __forceinline__ void publish(const Item& item, long long, int, u32 lower, u32 upper) {
  to_outbox(item, 0, lower & 0xffffu);
  to_outbox(item, 1, lower >> 16);
  to_outbox(item, 2, upper & 0xffffu);
  to_outbox(item, 3, upper >> 16);
}
__device__ __forceinline__ void publish_pair(const Item& item, long long, int, u32 bits, int = 0) { to_outbox(item, 0, bits); }
