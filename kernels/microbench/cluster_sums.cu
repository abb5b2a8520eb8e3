// SPDX-License-Identifier: Apache-2.0
// The SMs of a cluster add up their sums, round by round, by the training recurrence's own code (split.cuh) and behind its
// block barrier, but with nothing else. ONCHIP_EXCHANGES = 0: every SM adds up as many sums, but of its own memory, so that
// the difference is what it takes to send sums and to wait for the others'.
//
// A thread finishes a unit of a sample, an item. All sums of SM r are r + 1, but the first warp's for the next SM of the
// cluster: first the item's number, then (13 x + 57) mod 1024 of what the last round came to. So a word of an earlier round
// shows in the checksum, of all rounds. Clocks are read inside the kernel, so no launch is timed.

#include "kernels/persistent/types.cuh"

constexpr Precision kPrecision = kFp16;
constexpr int kElementBytes = 2;
constexpr int kSplit = ONCHIP_SPLIT;
constexpr bool kExchanges = ONCHIP_EXCHANGES != 0;
constexpr int kThreads = ONCHIP_THREADS;
constexpr int kUnits = ONCHIP_UNITS;
constexpr int kSamples = ONCHIP_SAMPLES;
constexpr int kItems = kUnits * kSamples;
constexpr int kThreadItems = (kItems + kThreads - 1) / kThreads;
constexpr int kPolls = 1 << 20;

// As in training_recurrence.cu, where all warps have spans.
constexpr int kWarps = kThreads / 32, kSpans = kWarps, kWarpSpans = 1;
constexpr int kRowTiles = kUnits * kSplit / 16, kSampleTiles = (kSamples + 7) / 8, kChains = 1;
constexpr int kThreadRows = 1;
struct Sums {
  float of[kChains][kRowTiles][kSampleTiles][4];
};
__device__ __forceinline__ int sm_of_group() {
  return static_cast<int>(blockIdx.x);
}

#include "kernels/dense/partials.cuh"
#include "kernels/training/device/split.cuh"
#include "kernels/microbench/clocks.cuh"

constexpr int kReceivedAt = kWarps * kPartialBytes;
constexpr int kBarriersAt = kReceivedAt + kReceivedBytes;
static_assert(ONCHIP_SHARED_BYTES == kBarriersAt + 16, "the host and the kernel count the same shared memory");

struct Arguments {
  u32* checksums;    // [blocks]
  long long* times;  // [2]: block 0's cycles at start and end
  u32* status;       // set to 1 if a wait was given up
  int warmup, steps;
};

template <typename Body>
__device__ __forceinline__ void for_items(int thread, const Body& body) {
#pragma unroll
  for (int i = 0; i < kThreadItems; ++i) {
    if (thread / 32 * 32 + i * kThreads < kItems) {
      body(thread + i * kThreads);
    }
  }
}

__device__ __forceinline__ void add_up_own(u32 partials, float (&sums)[1]) {
  sums[0] = 0;
#pragma unroll
  for (int i = 0; i < kSplit; ++i) {
    float own[1];
    sum_partials<0, kBusyWarps>(partials + 4 * kUnits * i, own);
    sums[0] += own[0];
  }
}

extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(kThreads, 1) microbench_cluster_sums(const Arguments a) {
  const u32 partials = static_cast<u32>(__cvta_generic_to_shared(shared_memory));
  const Received received{partials + kReceivedAt, partials + kBarriersAt};
  const int thread = threadIdx.x, rank = sm_of_group() % kSplit, next = (rank + 1) % kSplit;
  int polls = kPolls;
  for (int i = thread; i < kWarps * 8 * kSampleTiles * kPartialRows; i += kThreads) {
    store_shared_float(partials + 4 * i, static_cast<float>(rank + 1));
  }
  __syncthreads();
  const auto keep = [&](int item, u32 value) {
    if (item < kItems) {
      store_shared_float(partial_of(partials, item) + 4 * kUnits * next, static_cast<float>(value));
    }
    return item < kItems ? value * (2 * item + 1) : 0;
  };
  for_items(thread, [&](int item) { keep(item, item); });
  begin_receiving(received, thread);
  u32 checksum = 0;
#pragma unroll 1
  for (int t = 0;; ++t) {
    if ((t == a.warmup || t == a.steps) && blockIdx.x == 0 && thread == 0) {
      a.times[t == a.steps] = read_cycles();
    }
    if (t == a.steps) {
      break;
    }
    __syncthreads();
    if constexpr (kExchanges) {
      for_items(thread, [&](int item) { send_sums(received, SumOfWarps{}, partial_of(partials, item), t, item); });
      if (thread / 32 * 32 < kItems) {
        await_sums(received, t, thread, polls);
      }
    }
    for_items(thread, [&](int item) {
      const u32 of_item = partial_of(partials, item);
      float sums[1];
      if constexpr (kExchanges) {
        add_up(received, SumOfWarps{}, of_item, t, item, sums);
      } else {
        add_up_own(of_item, sums);
      }
      checksum += keep(item, (13 * static_cast<u32>(sums[0]) + 57) & 1023);
    });
  }
  atomicAdd(&a.checksums[blockIdx.x], checksum);
  if (polls <= 0) {
    *a.status = 1;
  }
  wait_for_cluster();
}
