// SPDX-License-Identifier: Apache-2.0
// The exchange of a pass by words that producer warps poll (pipeline.cuh).
#pragma once

#include "kernels/sparse/pass_barriers.cuh"
#include "kernels/sparse/stage_words.cuh"

// Where word i of a pass goes, from where the pass's first plane begins.
__device__ __forceinline__ u32 placed_at(int i) {
  if constexpr (kPassPlanes == 1) {
    return 16 * i;
  } else {
    return 16 * i + i / kPlaneWords * (kZeroUnits * kPlaneUnitBytes);
  }
}

// Copies kCount words of a pass, whose first is word `begin` of the state, to shared memory, kFetchThreads apart, the
// last only if it `exists`. Of two words, threads that have only one ask for the pass's last instead of the second: the
// compiler would make a branch around its load, and look at the first word before it asks. Few instructions for each:
// the warps that compute issue most of the time, and what a producer warp does takes several times as long as it would
// alone.
template <int kCount>
__device__ __forceinline__ void fetch_words(const char* from, int begin, u32 to, int first, bool exists, int& polls) {
  Word v[kCount];
  bool waiting = false;
  constexpr bool kAllAsk = kCount == 2 && kPassWords % kFetchThreads != 0;
  const auto load = [&](int k) {
    return load_relaxed(kAllAsk && k == 1 && !exists
                            ? from + in_l2(16 * (begin + kPassWords - 1))
                            : from + in_l2(16 * (begin + first)) + in_l2(16 * k * kFetchThreads));
  };
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    v[k] = {0, 0, 0, 0};
    if (k < kCount - 1 || exists || kAllAsk) {
      v[k] = load(k);
    }
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    waiting |= is_empty(v[k]);
  }
#pragma unroll 1
  while (waiting) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (is_empty(v[k])) {
        v[k] = load(k);
      }
    }
    waiting = false;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      waiting |= is_empty(v[k]);
    }
    waiting = waiting && polls > 0;
    polls -= waiting;
  }
  __syncwarp();
#pragma unroll
  for (int k = 0; k < kCount - 1; ++k) {
    store_shared(to + placed_at(first + k * kFetchThreads), v[k]);
  }
  store_shared_if(exists, to + placed_at(first + (kCount - 1) * kFetchThreads), v[kCount - 1]);
}

// The words of one pass, kLoadsInFlight of a thread at a time.
__device__ __forceinline__ void fetch_pass(const char* from, u32 to, int pass, int thread, int& polls) {
  to += kPassPlanes * kPlaneBytes * pass;
  constexpr int kRound = kLoadsInFlight * kFetchThreads;
  constexpr int kRest = kPassWords % kRound;
  constexpr int kLast = (kRest + kFetchThreads - 1) / kFetchThreads;  // words of the busiest thread
  int first = thread;
#pragma unroll 1
  for (int round = 0; round < kPassWords / kRound; ++round) {
    fetch_words<kLoadsInFlight>(from, kPassWords * pass, to, first, true, polls);
    first += kRound;
  }
  if constexpr (kLast > 0) {
    fetch_words<kLast>(from, kPassWords * pass, to, first, first + (kLast - 1) * kFetchThreads < kPassWords, polls);
  }
}

// Who has given up takes what is there of others, but still awaits what this SM itself publishes: the warps that compute
// must not be a step ahead of the one that publishes, or its barrier would see them twice. Every such thread awaits all.
__device__ __forceinline__ void await_own_words(const char* state, int pass) {
#pragma unroll 1
  for (int i = 0; i < kPassOutboxWords; ++i) {
#pragma unroll 1
    while (is_empty(load_relaxed(state + outbox_offset(kPassOutboxWords * pass + i)))) {
    }
  }
}

__device__ __forceinline__ void fetch_states(const Arguments& a, u32 shared, int thread) {
  const auto copy = [&](const char* state, int pass, int& polls) {
    fetch_pass(state, shared, pass, thread, polls);
    if (polls <= 0) {
      await_own_words(state, pass);
    }
    arrive(fetched(shared, pass), thread % 32);
  };
  fetch_all(a, [](int, int, int&) { wait_before_polling(); }, copy, [](int t) { return fences(t); });
}
