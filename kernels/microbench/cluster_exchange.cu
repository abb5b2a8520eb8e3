// SPDX-License-Identifier: Apache-2.0
// All-to-all exchange of a state vector between the SMs where those of a cluster fetch it together, beside the same loop
// where each SM fetches all of it (kCluster = 1): one block per SM, cooperative launch, SM s owns a segment of whole 16-byte
// words of the state. What the kernels' own exchange takes is measured by exchange.cu.
//
//   stage   every thread polls its 16-byte words of states[t] until no element is empty (all ones), copies them to
//           shared memory; a fence every quarter of kAhead; block barrier
//   rows    the writer lanes of a lane group (one row) read one element of the staged state each and change it
//   emit    through an outbox in shared memory and a block barrier: 16-byte stores to the segment of states[t+1], and
//           the segment of states[t+1+kAhead] is emptied
//
// Element e of step t+1 is (13 e' + 57) mod 2^15, where e' is the element of the same sample kDistance units further on
// (the next SM's) at step t: a closed form, against which the host checks every block's last state by a checksum.
//
// kCluster > 1: the SMs of a cluster poll a share of the state each and pass it on to the others' shared memory, by
// asynchronous stores that count towards a transaction barrier. On an H200 that is slower than that each SM polls all of
// it (rows cluster_exchange of microbench.csv), so no plan does it. Nor are here, because slower: polling a thread's first
// word alone until it is there, and emitting without the outbox, 2 or 8 bytes per row.
//
// Clocks are read inside the kernel, so no launch is timed.

#include "kernels/microbench/clocks.cuh"
#include "kernels/persistent/ranks.cuh"
#include "kernels/persistent/word.cuh"
#include "kernels/runtime/integers.cuh"
#include "kernels/sparse/words.cuh"

constexpr int kBlocks = ONCHIP_BLOCKS;
constexpr int kWordsPerSm = ONCHIP_WORDS_PER_SM;  // 16-byte words of the state that an SM owns
constexpr int kBatchPadded = ONCHIP_BATCH_PADDED;
constexpr int kThreads = ONCHIP_THREADS;
constexpr int kLanesPerRow = ONCHIP_LANES_PER_ROW;
constexpr int kLoadsInFlight = ONCHIP_LOADS_IN_FLIGHT;
constexpr int kAhead = ONCHIP_AHEAD;  // steps from emptying a segment to writing it
constexpr int kCluster = ONCHIP_CLUSTER;  // SMs that fetch the state together; 1: each for itself
#if ONCHIP_CLUSTER > 1
#define CLUSTER_DIMS __cluster_dims__(ONCHIP_CLUSTER, 1, 1)
#else
#define CLUSTER_DIMS
#endif

constexpr int kUnitBytes = 2 * kBatchPadded;
constexpr int kUnitsPerSm = 16 * kWordsPerSm / kUnitBytes;
constexpr int kUnits = kBlocks * kUnitsPerSm;
constexpr int kWords = kBlocks * kWordsPerSm;
constexpr int kBytes = 16 * kWords;
constexpr int kDistance = kUnitsPerSm + 1;
constexpr int kGroups = kThreads / kLanesPerRow;
constexpr int kRowsPerGroup = (kUnitsPerSm + kGroups - 1) / kGroups;
constexpr int kSpinLimit = 1 << 20;

static_assert(kUnitBytes <= 16, "a 16-byte word is whole units");
static_assert(kUnits > kDistance, "a unit's source lies in the state");
static_assert(kBatchPadded <= kLanesPerRow && 32 % kLanesPerRow == 0 && kThreads % 32 == 0,
              "a lane group is a power-of-two part of a warp and has a lane for every sample");
static_assert((kAhead & (kAhead - 1)) == 0 && kAhead >= 8, "a power of two, so that fences come at even distances");

struct Arguments {
  char* states;      // [steps + 1][kBytes]: the initial state, then at least kAhead empty ones
  u32* checksums;    // [kBlocks]
  long long* times;  // [4]: block 0's cycles at start and end, nanoseconds at start and end
  u32* status;       // set to 1 if a wait was given up
  int warmup, steps;
};

// A state [kUnits][kBatchPadded], in a cluster two, for odd steps and even ones; the outbox; in a cluster their barriers.
constexpr int kOutboxAt = kCluster > 1 ? 2 * kBytes : kBytes;
constexpr int kBarriersAt = kOutboxAt + 16 * kWordsPerSm;

// Polls words [begin, end) of a state, kLoadsInFlight per thread at a time; take(word, its number) for each.
template <typename Take>
__device__ __forceinline__ void poll(const char* from, int begin, int end, int& polls, Take&& take) {
#pragma unroll 1
  for (int first = begin + static_cast<int>(threadIdx.x); first < end; first += kThreads * kLoadsInFlight) {
    Word v[kLoadsInFlight];
#pragma unroll
    for (int k = 0; k < kLoadsInFlight; ++k) {
      const u32 unset = first + k * kThreads < end ? ~0u : 0u;
      v[k] = {unset, unset, unset, unset};
    }
    bool waiting = true;
    while (waiting) {
#pragma unroll
      for (int k = 0; k < kLoadsInFlight; ++k) {
        if (is_empty(v[k])) {
          v[k] = load_relaxed(from + 16ll * (first + k * kThreads));
        }
      }
      waiting = false;
#pragma unroll
      for (int k = 0; k < kLoadsInFlight; ++k) {
        waiting |= is_empty(v[k]);
      }
      waiting = waiting && polls > 0;
      polls -= waiting;
    }
#pragma unroll
    for (int k = 0; k < kLoadsInFlight; ++k) {
      if (first + k * kThreads < end) {
        take(v[k], first + k * kThreads);
      }
    }
  }
  __syncwarp();
}

// ---- clusters -------------------------------------------------------------------------------------------------------

__device__ __forceinline__ u32 rank_in_cluster() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// The next phase of a barrier ends with a whole state.
__device__ __forceinline__ void expect_state(u32 barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(kBytes) : "memory");
}

__device__ __forceinline__ void begin_cluster(u32 barriers) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * i) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int i = 0; i < 2; ++i) {
      expect_state(barriers + 8 * i);
    }
  }
  wait_for_cluster();
}

// This SM's share of a state to every SM of the cluster, and the wait for all of it. Whoever sees a word of state t + 1
// knows that every SM has seen all of state t and is done with t - 1, in whose place it goes.
__device__ __forceinline__ void stage_together(const char* from, u32 to, u32 barrier, int phase, int& polls) {
  constexpr int kShare = (kWords + kCluster - 1) / kCluster;
  const int begin = static_cast<int>(rank_in_cluster()) * kShare;
  poll(from, begin, begin + kShare < kWords ? begin + kShare : kWords, polls, [&](const Word& v, int word) {
#pragma unroll
    for (int rank = 0; rank < kCluster; ++rank) {
      asm volatile(
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
              of_rank(to + 16 * word, rank)),
          "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(of_rank(barrier, rank))
          : "memory");
    }
  });
  u32 done = 0;
  while (done == 0 && polls > 0) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(barrier), "r"(phase)
        : "memory");
    polls -= done == 0;
  }
  if (threadIdx.x == 0) {
    expect_state(barrier);
  }
}

extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(kThreads, 1) microbench_cluster_exchange(const Arguments a) {
  const int thread = threadIdx.x;
  const int lane = thread % kLanesPerRow;
  const int group = thread / kLanesPerRow;
  const bool writer = lane < kBatchPadded;
  const u32 shared_base = static_cast<u32>(__cvta_generic_to_shared(shared_memory));
  const u32 outbox = shared_base + kOutboxAt;
  u32 state = shared_base;
  const auto segment_at = [&](int step) {
    return a.states + static_cast<long long>(step) * kBytes + blockIdx.x * (kWordsPerSm * 16ll);
  };
  int polls = kSpinLimit;
  if (thread == 0) {
    a.checksums[blockIdx.x] = 0;
  }
  if constexpr (kCluster > 1) {
    begin_cluster(shared_base + kBarriersAt);
  }

#pragma unroll 1
  for (int t = 0;; ++t) {
    const char* const from = a.states + static_cast<long long>(t) * kBytes;
    if constexpr (kCluster > 1) {
      state = shared_base + t % 2 * kBytes;
      stage_together(from, state, shared_base + kBarriersAt + 8 * (t % 2), t / 2 % 2, polls);
    } else {
      poll(from, 0, kWords, polls, [&](const Word& v, int word) { store_shared(state + 16 * word, v); });
    }
    if ((t & (kAhead / 4 - 1)) == 0) {
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
    }
    if (t == a.steps && polls <= 0) {
      *a.status = 1;
    }
    __syncthreads();
    if ((t == a.warmup || t == a.steps) && blockIdx.x == 0 && thread == 0) {
      a.times[t == a.steps] = read_cycles();
      a.times[2 + (t == a.steps)] = read_nanoseconds();
    }
    if (t == a.steps) {
      break;
    }

#pragma unroll 8
    for (int r = 0; r < kRowsPerGroup; ++r) {
      const int unit = r * kGroups + group;  // within this SM's segment
      if (writer && unit < kUnitsPerSm) {
        const int further = static_cast<int>(blockIdx.x) * kUnitsPerSm + unit + kDistance;
        const int source = further < kUnits ? further : further - kUnits;
        u16 old;
        asm volatile("ld.shared.u16 %0, [%1];"
                     : "=h"(old)
                     : "r"(state + source * kUnitBytes + 2 * lane)
                     : "memory");
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(outbox + unit * kUnitBytes + 2 * lane),
                     "h"(static_cast<u16>((13u * old + 57u) & 0x7fffu))
                     : "memory");
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int i = thread; i < kWordsPerSm; i += kThreads) {
      store_relaxed(segment_at(t + 1) + 16 * i, load_shared(outbox + 16 * i));
      if (t + 1 + kAhead <= a.steps) {
        store_relaxed(segment_at(t + 1 + kAhead) + 16 * i, {~0u, ~0u, ~0u, ~0u});
      }
    }
  }

  const u32* last = reinterpret_cast<const u32*>(shared_memory + (state - shared_base));
  u32 checksum = 0;
  for (int i = thread; i < kBytes / 4; i += kThreads) {
    checksum += last[i] * (2u * i + 1u);
  }
  atomicAdd(&a.checksums[blockIdx.x], checksum);
  if constexpr (kCluster > 1) {
    wait_for_cluster();  // nobody leaves while another may still store here
  }
}
