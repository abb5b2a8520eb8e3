// SPDX-License-Identifier: Apache-2.0
// How the SMs of a persistent kernel hand the state to each other.
//
// Lamport: states[step] is written once, and the data is its own flag. What is still empty is all ones, a NaN that the
// conversion instructions never produce (they give the canonical NaN 0x7fff or 0x7fffffff), so NaN and infinity travel
// like any other value. Every SM empties its own segment kAhead steps before it writes it; two fences by every thread lie
// in between, so whoever has seen the state one step earlier sees the segment empty. For comparison, ONCHIP_EXCHANGE
// selects a barrier over all blocks instead, after which the states are read without a look.

enum Exchange { kLamport, kAtomicBarrier, kCooperativeBarrier };

constexpr Exchange kExchange = static_cast<Exchange>(ONCHIP_EXCHANGE);
constexpr int kThreads = ONCHIP_THREADS;
constexpr int kWarps = kThreads / 32;
constexpr int kAhead = ONCHIP_AHEAD;                    // steps from emptying a segment to writing it
constexpr int kPolls = 1 << 20;  // a thread's polls in vain before it gives up: most of a second, a million steps' worth

// Cycles that a warp waits before its first look for the next state (Plan::first_look in model/plan/plan.hpp). A look that comes
// too early is answered late, and the looks of all SMs are in the way of what is being written. us per step on an H200
// (first_look.csv of experiments/data), after a wait of so many cycles:
//                                   0    60   120   180   240   320   420   560
//   sparse  relu 1152 B=1 10 %     0.72  0.68  0.67  0.68  0.71  0.73  0.80  0.88
//           lstm 5632 B=4 10 %     5.99  5.90  5.87  5.84  5.80  5.81  5.83  5.91
//     turns relu 2304 B=4 30 %     1.55  1.43  1.34  1.32  1.26  1.28  1.36  1.49
//                                   0    40    80   120   160   200   260   320
//   dense   relu 512 B=4           0.65  0.63  0.63  0.65  0.67  0.70  0.73  0.77
//           relu 2304 B=4          0.95  0.92  0.97  1.00  0.97  1.00  1.02  1.06
//           lstm 1536 B=8          1.61  1.42  1.37  1.33  1.32  1.31  1.32  1.33
// The longer an SM computes, the more the SMs' times differ, and the longer a wait is best. Waits that every thread learns
// (32 cycles more for each look in vain, one less for each state) are as good in these, but not stable: who is late makes
// all others late, and exchanges of several words a thread without products took up to 1.5 times as long.
constexpr u32 kFirstLook = kExchange == kLamport ? ONCHIP_FIRST_LOOK : 0;

static_assert((kAhead & (kAhead - 1)) == 0 && kAhead >= 8, "a power of two, so that fences come at even distances");

__device__ __forceinline__ u32 read_clock() {
  u32 now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
  return now;
}

__device__ __forceinline__ void wait_for_first_look() {
  if constexpr (kFirstLook > 0) {
    const u32 begin = read_clock();
#pragma unroll 1
    while (read_clock() - begin < kFirstLook) {
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
