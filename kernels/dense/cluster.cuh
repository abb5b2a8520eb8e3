// SPDX-License-Identifier: Apache-2.0
// The exchange of the dense persistent kernel inside one cluster of SMs, for networks small enough: every SM has the
// states of two steps in its shared memory, and whoever finishes a word stores it into that of every SM.
//
// The stores are asynchronous and count their bytes towards a transaction barrier of the SM that they go to; its warps
// wait there for the whole state. So nothing has to be emptied, and no value is special. Whoever waits for state t + 1
// knows that every SM has read all of state t: state t + 2 may go where state t was.
//
// Single words are the fastest on an H200: the same bytes in 16-byte words take 8 to 12 % longer, bulk copies of up to
// 4 KB 600 cycles more, and plain stores that are polled for 300.
#pragma once

#include "kernels/dense/spans.cuh"
#include "kernels/persistent/memory.cuh"
#include "kernels/persistent/protocol.cuh"
#include "kernels/persistent/ranks.cuh"

constexpr bool kInCluster = kExchange == kCluster;
#if ONCHIP_EXCHANGE == 3
#define CLUSTER_DIMS __cluster_dims__(ONCHIP_BLOCKS, 1, 1)
#else
#define CLUSTER_DIMS
#endif

constexpr int kSentBytes = kStateUnits * kGroupBatch * kElementBytes;  // of a state, without what is nobody's

struct ClusterState {
  u32 states;    // [2][kStateBytes], the one of odd steps second
  u32 barriers;  // [2], 8 bytes each
  __device__ __forceinline__ u32 state(int t) const { return states + t % 2 * kStateBytes; }
  __device__ __forceinline__ u32 barrier(int t) const { return barriers + t % 2 * 8; }
};

// The initial state, and what is nobody's in either place: nothing is stored there later. Ends when all SMs are ready.
__device__ __forceinline__ void begin_cluster(const ClusterState& cluster, const char* initial, int thread) {
#pragma unroll 1
  for (int i = thread; i < kStateBytes / 16; i += kThreads) {
    copy_16(cluster.states + 16 * i, initial + 16ll * i);
    copy_16(cluster.states + kStateBytes + 16 * i, initial + 16ll * i);
  }
  end_copies();
  wait_for_copies<0>();
  begin_barriers(cluster.barriers, kSentBytes, thread);
}

// Waits for all of state t > 0.
__device__ __forceinline__ void await_state(const ClusterState& cluster, int t, int thread, int& polls) {
  await_bytes(cluster.barrier(t), (t - 1) / 2 % 2, kSentBytes, thread, polls);
}

// A word of state t, at `place` of it, to every SM of the cluster, the next one first. kSenders lanes have the same word:
// this is the number of the lane among them, for a share of the SMs.
template <int kSenders = 1>
__device__ __forceinline__ void send(const ClusterState& cluster, u32 place, u32 word, int t, int sender = 0) {
  const u32 barrier = cluster.barrier(t), to = cluster.state(t) + place - barrier;
  const int self = static_cast<int>(blockIdx.x) + 1 + sender;
#pragma unroll
  for (int i = 0; i < kBlocks; i += kSenders) {
    const u32 there = of_rank(barrier, (self + i) % kBlocks);
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(there + to),
                 "r"(word), "r"(there)
                 : "memory");
  }
}
