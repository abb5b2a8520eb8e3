// SPDX-License-Identifier: Apache-2.0
// How the SMs of a persistent kernel exchange the state.
//
// Lamport: states[step] is written once, and the data is its own flag. What is still empty is all ones, a NaN that the
// conversion instructions never produce (they give the canonical NaN 0x7fff or 0x7fffffff), so NaN and infinity travel
// like any other value. Every SM empties its own segment kAhead steps before it writes it; two fences by every thread lie
// in between, so whoever has seen the state one step earlier sees the segment empty. For comparison, ONCHIP_EXCHANGE
// selects a barrier over all blocks instead, after which the states are read without polling.
#pragma once

#include "kernels/persistent/types.cuh"

constexpr Exchange kExchange = static_cast<Exchange>(ONCHIP_EXCHANGE);
constexpr int kThreads = ONCHIP_THREADS;
constexpr int kWarps = kThreads / 32;
constexpr int kAhead = ONCHIP_AHEAD;                    // steps from emptying a segment to writing it
constexpr int kPolls = 1 << 20;  // a thread's polls in vain before it gives up: most of a second, a million steps' worth

// Cycles that a warp waits before it first polls for the next state. A poll that comes too early is answered late, and the
// polls of all SMs are in the way of what is being written. The longer an SM computes, the more the SMs' times differ, and
// the longer the best delay is: 120 to 240 cycles of most sparse plans on an H200, 40 to 200 of dense ones.
constexpr u32 kPollDelay = kExchange == kLamport ? ONCHIP_POLL_DELAY : 0;

static_assert((kAhead & (kAhead - 1)) == 0 && kAhead >= 4, "a power of two, so that fences come at even distances");

__device__ __forceinline__ u32 read_clock() {
  u32 now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
  return now;
}

// Who has given up waiting says so; who has not has all polls again.
__device__ __forceinline__ void renew_polls(u32* status, int& polls) {
  if (polls <= 0) {
    *status = 1;
  } else {
    polls = kPolls;
  }
}

__device__ __forceinline__ void wait_before_polling() {
  if constexpr (kPollDelay > 0) {
    const u32 begin = read_clock();
#pragma unroll 1
    while (read_clock() - begin < kPollDelay) {
    }
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
