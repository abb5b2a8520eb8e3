// SPDX-License-Identifier: Apache-2.0
// The state on its way between the SMs of a persistent kernel, in whole 16-byte words: into shared memory before a step,
// out of an outbox in shared memory after it.
//
// Lamport: states[step] is written once, and the data is its own flag. What is still empty is all ones, a NaN that the
// conversion instructions never produce (they give the canonical NaN 0x7fff or 0x7fffffff), so NaN and infinity travel
// like any other value. Words are moved by scalar 128-bit accesses, one memory operation each, so looking at 4 of the
// bytes is enough. Every SM empties its own segment kAhead steps before it writes it; two fences by every thread lie in
// between, so whoever has seen the state one step earlier sees the segment empty. For comparison, ONCHIP_EXCHANGE selects
// a barrier over all blocks instead, after which the states are read without a look.

enum Exchange { kLamport, kAtomicBarrier, kCooperativeBarrier };

constexpr Exchange kExchange = static_cast<Exchange>(ONCHIP_EXCHANGE);
constexpr int kThreads = ONCHIP_THREADS;
constexpr int kLoadsInFlight = ONCHIP_LOADS_IN_FLIGHT;  // 16-byte words a thread polls at once
constexpr int kAhead = ONCHIP_AHEAD;                    // steps from emptying a segment to writing it
constexpr int kZeroUnits = ONCHIP_ZERO_UNITS;           // units after the state that stay zero: what padding slots read
constexpr int kPolls = 1 << 20;  // a thread's polls in vain before it gives up: most of a second, a million steps' worth

constexpr int kPlaneBytes = (kStateUnits + kZeroUnits) * kPlaneUnitBytes;  // in shared memory
constexpr int kStateBytes = kPlanes * kPlaneBytes;
constexpr int kOutboxPlaneWords = kUnitsPerSm * kPlaneUnitBytes / 16;
constexpr int kOutboxWords = kPlanes * kOutboxPlaneWords;
constexpr int kOutboxAt = kStateBytes;  // in shared memory: [kPlanes][kUnitsPerSm][kPlaneSamples]

static_assert((kAhead & (kAhead - 1)) == 0 && kAhead >= 8, "a power of two, so that fences come at even distances");

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
        v[k] = load_relaxed(from + 16ll * (first + k * kThreads));
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
#pragma unroll
  for (int k = 0; k < kCount - 1; ++k) {
    store_shared(to + staged_at(first + k * kThreads), v[k]);
  }
  store_shared_if(exists, to + staged_at(first + (kCount - 1) * kThreads), v[kCount - 1]);
}

// A state, in rounds of kLoadsInFlight words per thread and a last one of what is left. No loop: its addresses would take
// registers. Ends with the warp converged: without that, threads with nothing left to poll were seen to pass the block
// barrier for their whole warp.
template <int kDone = 0>
__device__ __forceinline__ void stage(const char* from, u32 to, int thread, int& polls) {
  constexpr int left = (kStateWords - kDone + kThreads - 1) / kThreads;  // of the busiest thread
  if constexpr (left > kLoadsInFlight) {
    stage_words<kLoadsInFlight>(from, to, thread + kDone, true, polls);
    stage<kDone + kLoadsInFlight * kThreads>(from, to, thread, polls);
  } else {
    constexpr int last = kDone + (left - 1) * kThreads;
    stage_words<left>(from, to, thread + kDone, last + kThreads <= kStateWords || thread + last < kStateWords, polls);
    __syncwarp();
  }
}

// Where word i of this SM's outbox belongs in a state.
__device__ __forceinline__ long long outbox_offset(int i) {
  const int plane = kPlanes == 1 ? 0 : i / kOutboxPlaneWords;
  return 16ll * (plane * kPlaneWords + static_cast<int>(blockIdx.x) * kOutboxPlaneWords + (i - plane * kOutboxPlaneWords));
}

// Hands out word i of the outbox of step t, and empties its place of a later step.
__device__ __forceinline__ void emit(char* to, int i, u32 shared, int t, int steps) {
  store_relaxed(to, load_shared(shared + kOutboxAt + 16 * i));
  if (kExchange == kLamport && t + 1 + kAhead <= steps) {
    store_relaxed(to + kAhead * (kStateWords * 16ll), {~0u, ~0u, ~0u, ~0u});
  }
}

// Waits, in one thread of every block, until all have come `count` times.
__device__ __forceinline__ void wait_for_blocks(u32* barrier, int count, int& polls) {
  if constexpr (kExchange == kAtomicBarrier) {
    // One counter that only grows.
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(barrier) : "memory");
    u32 seen;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(barrier) : "memory");
    } while (seen < static_cast<u32>(count) * kBlocks && --polls > 0);
  } else {
    // The cooperative launch's own barrier: the last to come flips the top bit of the counter.
    const u32 add = blockIdx.x == 0 ? 0x80000000u - (kBlocks - 1) : 1u;
    __threadfence();
    const u32 before = atomicAdd(barrier, add);
    u32 seen;
    do {
      seen = *reinterpret_cast<volatile u32*>(barrier);
    } while (((before ^ seen) & 0x80000000u) == 0 && --polls > 0);
    __threadfence();
  }
}
