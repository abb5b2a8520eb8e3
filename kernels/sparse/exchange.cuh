// SPDX-License-Identifier: Apache-2.0
// The state on its way between the SMs of the sparse persistent kernel (protocol.cuh), in whole 16-byte words: into shared
// memory before a step, out of an outbox in shared memory after it. Words are moved by scalar 128-bit accesses, one memory
// operation each, so 4 of the bytes speak for all.

constexpr int kLoadsInFlight = ONCHIP_LOADS_IN_FLIGHT;  // 16-byte words a thread polls at once
constexpr int kZeroUnits = ONCHIP_ZERO_UNITS;           // units after the state that stay zero: what padding slots read

constexpr int kPlaneBytes = (kStateUnits + kZeroUnits) * kPlaneUnitBytes;  // in shared memory
constexpr int kStateBytes = kPlanes * kPlaneBytes;
constexpr int kOutboxPlaneWords = kUnitsPerSm * kPlaneUnitBytes / 16;
constexpr int kOutboxWords = kPlanes * kOutboxPlaneWords;
constexpr int kOutboxAt = ONCHIP_AT_OUTBOX;  // in shared memory: [kPlanes][kUnitsPerSm][kPlaneSamples]
static_assert(kOutboxAt == kStateBytes, "the outbox follows the state and its zero units");

__device__ __forceinline__ Word load_relaxed(const char* address) {
  Word v;
  asm volatile(
      "{\n\t"
      ".reg .b128 word;\n\t"
      ".reg .b64 low, high;\n\t"
      "ld.relaxed.gpu.global.b128 word, [%4];\n\t"
      "mov.b128 {low, high}, word;\n\t"
      "mov.b64 {%0, %1}, low;\n\t"
      "mov.b64 {%2, %3}, high;\n\t"
      "}"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(address)
      : "memory");
  return v;
}

// A 16-byte word of the exchange is written and read as one scalar, so its first 32 bits speak for all of it.
__device__ __forceinline__ bool is_empty(const Word& v) { return v.x == ~0u; }

__device__ __forceinline__ void store_relaxed(char* address, const Word& v) {
  asm volatile(
      "{\n\t"
      ".reg .b128 word;\n\t"
      ".reg .b64 low, high;\n\t"
      "mov.b64 low, {%1, %2};\n\t"
      "mov.b64 high, {%3, %4};\n\t"
      "mov.b128 word, {low, high};\n\t"
      "st.relaxed.gpu.global.b128 [%0], word;\n\t"
      "}" ::"l"(address),
      "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
      : "memory");
}

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

// Copies kCount words of a state to shared memory, kThreads apart, the last only if it `exists`; Lamport: polls them.
// `polls`: how often a thread may find a word missing; once that is used up it takes what is there.
template <int kCount>
__device__ __forceinline__ void stage_words(const char* from, u32 to, int first, bool exists, int& polls) {
  Word v[kCount];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const u32 unset = k < kCount - 1 || exists ? ~0u : 0u;
    v[k] = {unset, unset, unset, unset};
  }
  bool waiting = true;
  while (waiting) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (is_empty(v[k])) {
        v[k] = load_relaxed(from + in_l2(16 * first) + in_l2(16 * k * kThreads));
      }
    }
    waiting = false;
    if constexpr (kExchange == kLamport) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        waiting |= is_empty(v[k]);
      }
      waiting = waiting && polls > 0;
      polls -= waiting;
    }
  }
  // What is polled comes to the lanes of a warp at different times: together they store it in fewer wavefronts. And
  // without this, threads with nothing left to poll may pass the block barrier for their whole warp.
  __syncwarp();
#pragma unroll
  for (int k = 0; k < kCount - 1; ++k) {
    store_shared(to + staged_at(first + k * kThreads), v[k]);
  }
  store_shared_if(exists, to + staged_at(first + (kCount - 1) * kThreads), v[kCount - 1]);
}

// A state, in rounds of kLoadsInFlight words per thread and a last one of what is left. No loop: its addresses would take
// registers.
template <int kDone = 0>
__device__ __forceinline__ void stage(const char* from, u32 to, int thread, int& polls) {
  constexpr int left = (kStateWords - kDone + kThreads - 1) / kThreads;  // of the busiest thread
  if constexpr (left > kLoadsInFlight) {
    stage_words<kLoadsInFlight>(from, to, thread + kDone, true, polls);
    stage<kDone + kLoadsInFlight * kThreads>(from, to, thread, polls);
  } else {
    constexpr int last = kDone + (left - 1) * kThreads;
    stage_words<left>(from, to, thread + kDone, last + kThreads <= kStateWords || thread + last < kStateWords, polls);
  }
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
