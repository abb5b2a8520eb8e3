// SPDX-License-Identifier: Apache-2.0
// Signals between SMs through L2, one block per SM.
//
//   kGridBarrier   one counter: every block adds one (release), then waits until all have (acquire)
//   kChase         one thread per block follows a chain of pointers with ld.relaxed.gpu: the latency of L2
//   kPingPong      two blocks answer each other's flag: twice the one-way signal
//
// Clocks are read inside the kernel, so no launch is timed. Spins are bounded: status becomes 1 if one was given up.

#include "kernels/runtime/integers.cuh"

enum Kind { kGridBarrier, kChase, kPingPong };

constexpr Kind kKind = static_cast<Kind>(ONCHIP_KIND);
constexpr int kSpinLimit = 1 << 20;

struct Arguments {
  u32* flags;        // [64], zero before the launch; 128 bytes between two flags that are in use
  const u64* chain;  // [lines][16]: the first of each 128-byte line is the address of the next line
  long long* times;  // [blocks][4]: cycles at start and end, nanoseconds at start and end
  u32* status;
  int steps;
  int partner;  // of block 0, for kPingPong
};

#include "kernels/microbench/clocks.cuh"

__device__ __forceinline__ u32 load_relaxed(const u32* address) {
  u32 v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(address) : "memory");
  return v;
}
__device__ __forceinline__ u32 load_acquire(const u32* address) {
  u32 v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(address) : "memory");
  return v;
}
__device__ __forceinline__ void store_relaxed(u32* address, u32 v) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(v) : "memory");
}
__device__ __forceinline__ void add_release(u32* address, u32 v) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(address), "r"(v) : "memory");
}

extern "C" __global__ void __launch_bounds__(256, 1) microbench_barrier(const Arguments a) {
  const bool leader = threadIdx.x == 0;
  const int warmup = a.steps / 8;
  int polls_left = kSpinLimit;
  long long cycles = 0, nanoseconds = 0;

  if constexpr (kKind == kGridBarrier) {
    for (int t = 0; t < warmup + a.steps; ++t) {
      if (t == warmup) {
        cycles = read_cycles();
        nanoseconds = read_nanoseconds();
      }
      __syncthreads();
      if (leader) {
        add_release(a.flags, 1);
        const u32 all = static_cast<u32>(t + 1) * gridDim.x;
        while (load_acquire(a.flags) < all && --polls_left >= 0) {
        }
        if (polls_left < 0) {
          *a.status = 1;  // later waits give up at once
        } else {
          polls_left = kSpinLimit;
        }
      }
      __syncthreads();
    }
  } else if constexpr (kKind == kChase) {
    if (!leader) {
      return;
    }
    const u64* line = a.chain + 16ll * blockIdx.x;
    for (int pass = 0; pass < 2; ++pass) {  // the first brings the lines to L2
      cycles = read_cycles();
      nanoseconds = read_nanoseconds();
#pragma unroll 4
      for (int t = 0; t < a.steps; ++t) {
        u64 next;
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(next) : "l"(line) : "memory");
        line = reinterpret_cast<const u64*>(next);
      }
      if (line == nullptr) {  // never: the last load has arrived before the clock is read
        *a.status = 1;
        return;
      }
    }
  } else {
    const bool first = blockIdx.x == 0;
    if (!leader || (!first && static_cast<int>(blockIdx.x) != a.partner)) {
      return;
    }
    u32* mine = a.flags + (first ? 0 : 32);
    const u32* theirs = a.flags + (first ? 32 : 0);
    for (int t = 0; t < warmup + a.steps; ++t) {
      if (t == warmup) {
        cycles = read_cycles();
        nanoseconds = read_nanoseconds();
      }
      const u32 turn = static_cast<u32>(t + 1);
      if (first) {
        store_relaxed(mine, turn);
      }
      while (load_relaxed(theirs) < turn && --polls_left >= 0) {
      }
      if (polls_left < 0) {
        *a.status = 1;
      } else {
        polls_left = kSpinLimit;
      }
      if (!first) {
        store_relaxed(mine, turn);
      }
    }
  }
  if (leader) {
    a.times[4 * blockIdx.x] = cycles;
    a.times[4 * blockIdx.x + 1] = read_cycles();
    a.times[4 * blockIdx.x + 2] = nanoseconds;
    a.times[4 * blockIdx.x + 3] = read_nanoseconds();
  }
}
