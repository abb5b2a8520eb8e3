// SPDX-License-Identifier: Apache-2.0
// The SMs of a cluster share the columns, so that each takes only its share of the state from L2. An SM sends the sums
// of others' units to their shared memory, and adds up what it receives for its own, in the order of the SMs.
//
//   received   float [2][kSplit][kThreadItems * kThreads] in shared memory, and two transaction barriers. Sub-batches
//              alternate between the two of each. An SM that has all sums of a sub-batch knows that every thread of the
//              others has read those of the one before.
#pragma once

#include "kernels/persistent/memory.cuh"
#include "kernels/persistent/ranks.cuh"

#if ONCHIP_SPLIT > 1
#define CLUSTER_DIMS __cluster_dims__(ONCHIP_SPLIT, 1, 1)
#else
#define CLUSTER_DIMS
#endif

constexpr int kReceivedBytes = kSplit > 1 ? 2 * kSplit * kThreadItems * kThreads * 4 : 0;

struct Received {
  u32 sums, barriers;
  __device__ __forceinline__ u32 sum(int count, int rank, int item) const {
    return sums + ((count & 1) * kSplit + rank) * (kThreadItems * kThreads * 4) + item * 4;
  }
  __device__ __forceinline__ u32 barrier(int count) const { return barriers + (count & 1) * 8; }
};

constexpr int kSentBytes = (kSplit - 1) * kItems * 4;  // to an SM
__device__ __forceinline__ void begin_receiving(const Received& received, int thread) {
  begin_barriers(received.barriers, kSentBytes, thread);
}

// An item's sums of this SM, of one warp.
__device__ __forceinline__ u32 partial_of(u32 partials, int item) {
  return partials + 4 * (item / kUnits * kPartialRows + item % kUnits * kThreadRows);
}

// sum_of(address, sums): the kThreadRows sums of this SM that begin there.
//
// What an item has in partial sums of the first of the cluster's SMs. `count`: of sub-batches before this one.
template <typename SumOf>
__device__ __forceinline__ void send_sums(const Received& received, const SumOf& sum_of, u32 partials, int count,
                                          int item) {
  const int rank = sm_of_group() % kSplit;
#pragma unroll
  for (int i = 1; i < kSplit; ++i) {
    const int peer = (rank + i) % kSplit;
    float sum[kThreadRows];
    sum_of(partials + 4 * kUnits * peer, sum);
    if (item < kItems) {
      const u32 to = of_rank(received.sum(count, rank, item), peer), barrier = of_rank(received.barrier(count), peer);
      asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
                   "r"(__float_as_uint(sum[0])), "r"(barrier)
                   : "memory");
    }
  }
}

__device__ __forceinline__ void await_sums(const Received& received, int count, int thread, int& polls) {
  await_bytes(received.barrier(count), count >> 1 & 1, kSentBytes, thread, polls);
}

// An item's sums: those of its SM, or of all SMs of the cluster, of the only row that a thread then has.
template <typename SumOf>
__device__ __forceinline__ void add_up(const Received& received, const SumOf& sum_of, u32 partials, int count, int item,
                                       float (&sums)[kThreadRows]) {
  if constexpr (kSplit == 1) {
    sum_of(partials, sums);
  } else {
    const int rank = sm_of_group() % kSplit;
    float own[kThreadRows];
    sum_of(partials + 4 * kUnits * rank, own);
    sums[0] = 0;
#pragma unroll
    for (int i = 0; i < kSplit; ++i) {
      sums[0] += i == rank || item >= kItems ? own[0] : load_shared_float(received.sum(count, i, item));
    }
  }
}
