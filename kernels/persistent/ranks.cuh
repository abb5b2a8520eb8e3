// SPDX-License-Identifier: Apache-2.0
// SMs of a cluster: the same place in the shared memory of another, and a barrier of all their threads.
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
