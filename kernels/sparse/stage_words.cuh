// SPDX-License-Identifier: Apache-2.0
// 16-byte words of a state in L2, each one memory operation, and their way to shared memory.
#pragma once

#include "kernels/persistent/memory.cuh"
#include "kernels/persistent/protocol.cuh"

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

// Copies kCount words of a state to shared memory, kThreads apart, the last only if it `exists`; Lamport: polls them.
// kStagedAt(i): where word i of a state goes. `polls`: how often a thread may find a word missing; once that is used up it takes what is there.
template <int kCount, u32 (*kStagedAt)(int)>
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
    store_shared(to + kStagedAt(first + k * kThreads), v[k]);
  }
  store_shared_if(exists, to + kStagedAt(first + (kCount - 1) * kThreads), v[kCount - 1]);
}

// Rounds of kInFlight words per thread from word kDone on. No loop: its addresses would take registers. Halves of halves:
// compilers limit how deep templates call one another.
template <int kRounds, int kInFlight, u32 (*kStagedAt)(int), int kDone>
__device__ __forceinline__ void stage_full_rounds(const char* from, u32 to, int thread, int& polls) {
  if constexpr (kRounds == 1) {
    stage_words<kInFlight, kStagedAt>(from, to, thread + kDone, true, polls);
  } else if constexpr (kRounds > 1) {
    constexpr int half = kRounds / 2;
    stage_full_rounds<half, kInFlight, kStagedAt, kDone>(from, to, thread, polls);
    stage_full_rounds<kRounds - half, kInFlight, kStagedAt, kDone + half * kInFlight * kThreads>(from, to, thread, polls);
  }
}

// The first kWords of a state, in rounds of kInFlight words per thread and a last one of what is left.
template <int kWords, int kInFlight, u32 (*kStagedAt)(int)>
__device__ __forceinline__ void stage_rounds(const char* from, u32 to, int thread, int& polls) {
  constexpr int all = (kWords + kThreads - 1) / kThreads;  // words of the busiest thread
  constexpr int full = (all - 1) / kInFlight, left = all - full * kInFlight, last = (all - 1) * kThreads;
  stage_full_rounds<full, kInFlight, kStagedAt, 0>(from, to, thread, polls);
  stage_words<left, kStagedAt>(from, to, thread + full * kInFlight * kThreads, last + kThreads <= kWords || thread + last < kWords,
                               polls);
}
