// SPDX-License-Identifier: Apache-2.0
// What the warps of pipelined passes wait for each other at (pipeline.cuh), and whose the registers are.
#pragma once

#include "kernels/sparse/regions.cuh"

constexpr int kProducerThreads = 32 * ONCHIP_PRODUCER_WARPS;
#if ONCHIP_EXCHANGE == 4
constexpr int kFetchThreads = 32;  // the second warp emits, and others only give their registers away; see bulk_copy.cuh
#else
constexpr int kFetchThreads = kProducerThreads - 32;  // the last warp emits
#endif
constexpr int kBlockThreads = kThreads + kProducerThreads;
constexpr int kPassWords = kPassPlanes * kPlaneWords;
constexpr int kPassOutboxWords = kPassPlanes * kOutboxPlaneWords;

constexpr int kComputing = 1, kTaken = 2, kComputed = kTaken + kPasses;  // named barriers
static_assert(kPasses > 1 && kComputed + kPasses <= 16, "a pass is fetched while another is computed; there are 16 barriers");
constexpr int kWithFetching = kThreads + kFetchThreads, kWithEmitting = kThreads + 32;  // threads that take part in them
#if ONCHIP_EXCHANGE != 4
static_assert(kExchange == kLamport && kRingChunks == 0, "passes are pipelined where nobody waits for all SMs");
#endif

template <int kCount>
__device__ __forceinline__ void wait_at(int barrier) {
  asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(barrier), "n"(kCount) : "memory");
}
template <int kCount>
__device__ __forceinline__ void arrive_at(int barrier) {
  asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(barrier), "n"(kCount) : "memory");
}

// The mbarrier of a pass.
__device__ __forceinline__ u32 fetched(u32 shared, int pass) { return shared + kFetchedAt + 8 * pass; }

// Before all warps of the block have met.
__device__ __forceinline__ void prepare_pipeline(u32 shared, int thread) {
  if (thread < kPasses) {
    const int warps = kFetchThreads / 32 + (thread == 0 ? 1 : 0);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(fetched(shared, thread)), "r"(warps) : "memory");
  }
}
// A whole warp has done what others wait for at an mbarrier.
__device__ __forceinline__ void arrive(u32 barrier, int lane) {
  __syncwarp();
  if (lane == 0) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
  }
}
__device__ __forceinline__ void await_phase(u32 barrier, u32 parity) {
  u32 is_over = 0;
#pragma unroll 1
  while (is_over == 0) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(is_over)
                 : "r"(barrier), "r"(parity)
                 : "memory");
#else
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(is_over)
                 : "r"(barrier), "r"(parity)
                 : "memory");
#endif
  }
}

// Registers go from the producer warps to the others, where whole warpgroups of them can give some away.
__device__ __forceinline__ void have_fetching_registers() {
#ifdef ONCHIP_FETCHING_REGISTERS
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(ONCHIP_FETCHING_REGISTERS));
#endif
}
__device__ __forceinline__ void have_computing_registers() {
#ifdef ONCHIP_COMPUTING_REGISTERS
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(ONCHIP_COMPUTING_REGISTERS));
#endif
}

// A fence now and then (protocol.cuh); whether it was.
__device__ __forceinline__ bool fences(int t) {
  const bool is_time = (t & (kAhead / 4 - 1)) == 0;
  if (is_time) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
  }
  return is_time;
}

// What warps that fetch do: the state of every pass of every step, as soon as there is room for it. await(pass, t, polls)
// waits before it is asked for, but at first; copy(state, pass, polls) brings it; renews(t): whether polls count anew.
template <typename Await, typename Copy, typename Renews>
__device__ __forceinline__ void fetch_all(const Arguments& a, const Await& await, const Copy& copy, const Renews& renews) {
  const char* state = static_cast<const char*>(a.states);
  int polls = kPolls;
#pragma unroll 1
  for (int t = 0; t < a.steps; ++t) {
#pragma unroll 1
    for (int pass = 0; pass < kPasses; ++pass) {
      if (t > 0) {
        wait_at<kWithFetching>(kTaken + pass);
        await(pass, t, polls);
      }
      copy(state, pass, polls);
    }
    state += kStateStride;
    if (renews(t)) {
      polls = polls > 0 ? kPolls : 0;  // who has given up takes what is there
    }
  }
  if (polls <= 0) {
    *a.status = 1;
  }
#pragma unroll 1
  for (int pass = 0; pass < kPasses; ++pass) {  // of the last step, for whom nothing follows
    wait_at<kWithFetching>(kTaken + pass);
  }
}
