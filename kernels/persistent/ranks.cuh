// SPDX-License-Identifier: Apache-2.0
// SMs of a cluster: the same place in the shared memory of another, a barrier of all their threads, and pairs of
// alternating transaction barriers that stores from other SMs count towards.
#pragma once

#include "kernels/runtime/integers.cuh"

__device__ __forceinline__ u32 of_rank(u32 address, int rank) {
  u32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
__device__ __forceinline__ void wait_for_cluster() {
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

// The next phase of a barrier ends with so many bytes.
__device__ __forceinline__ void expect_bytes(u32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Two barriers, 8 bytes each. Ends when all SMs are ready.
__device__ __forceinline__ void begin_barriers(u32 barriers, int bytes, int thread) {
  if (thread == 0) {
    for (int i = 0; i < 2; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * i) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int i = 0; i < 2; ++i) {
      expect_bytes(barriers + 8 * i, bytes);
    }
  }
  wait_for_cluster();
}

// Waits for all bytes of a phase, then expects as many again.
__device__ __forceinline__ void await_bytes(u32 barrier, int parity, int bytes, int thread, int& polls) {
  constexpr int kNanoseconds = 1000;  // of a poll, at most
  u32 is_there = 0;
#pragma unroll 1
  do {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2, %3; selp.u32 %0, 1, 0, p; }"
        : "=r"(is_there)
        : "r"(barrier), "r"(parity), "r"(kNanoseconds)
        : "memory");
  } while (is_there == 0 && --polls > 0);
  if (thread == 0) {
    expect_bytes(barrier, bytes);
  }
}
