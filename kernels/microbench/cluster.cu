// SPDX-License-Identifier: Apache-2.0
// Exchange of a state inside one cluster of SMs, step by step, by the dense persistent kernel's own code (cluster.cuh) and
// with its two block barriers, but with nothing else: every thread changes 32-bit words of its SM's share.
//
// Word i of step t + 1 is 13 w + 57 mod 2^32, where w is word i + kDistance (the next SM's) of step t: a closed form, against
// which the host checks the last state by a checksum. Clocks are read inside the kernel, so no launch is timed.

#include "kernels/dense/spans.cuh"  // first: what the others are made for

#include "kernels/dense/cluster.cuh"
#include "kernels/persistent/memory.cuh"
#include "kernels/persistent/protocol.cuh"

struct Arguments {
  u32* checksums;    // [kBlocks]
  long long* times;  // [2]: block 0's cycles at start and end
  u32* status;       // set to 1 if a wait was given up
  int warmup, steps;
  const char* initial;  // [kStateBytes]
};

constexpr int kWords = kStateBytes / 4;
constexpr int kWordsPerSm = kWords / kBlocks;
constexpr int kDistance = kWordsPerSm + 1;
static_assert(kSentBytes == kStateBytes, "all of the state is somebody's");

extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(kThreads, 1) microbench_cluster(const Arguments a) {
  const u32 shared = static_cast<u32>(__cvta_generic_to_shared(shared_memory));
  const ClusterState cluster{shared, shared + 2 * kStateBytes};
  const int thread = threadIdx.x;
  int polls = kPolls;
  begin_cluster(cluster, a.initial, thread);
#pragma unroll 1
  for (int t = 0;; ++t) {
    if (t > 0) {
      await_state(cluster, t, thread, polls);
    }
    if ((t == a.warmup || t == a.steps) && blockIdx.x == 0 && thread == 0) {
      a.times[t == a.steps] = clock64();
    }
    if (t == a.steps) {
      break;
    }
    const u32 state = cluster.state(t);
    __syncthreads();
#pragma unroll 1
    for (int i = thread; i < kWordsPerSm; i += kThreads) {
      const int word = static_cast<int>(blockIdx.x) * kWordsPerSm + i;
      const u32 old = load_shared_int(state + 4 * ((word + kDistance) % kWords));
      send(cluster, 4 * word, 13u * old + 57u, t + 1);
    }
    __syncthreads();
  }
  u32 checksum = 0;
  for (int i = thread; i < kWords; i += kThreads) {
    checksum += static_cast<u32>(load_shared_int(cluster.state(a.steps) + 4 * i)) * (2u * i + 1u);
  }
  atomicAdd(&a.checksums[blockIdx.x], checksum);
  if (polls <= 0) {
    *a.status = 1;
  }
  wait_for_cluster();
}
