// SPDX-License-Identifier: Apache-2.0
// Software pipelining over samples: some are computed while the state of the others is on its way.
//
// A pass computes the samples of its planes. Samples know nothing of each other, so every pass exchanges its part of the
// state on its own, and producer warps, which do nothing else, see to that:
//
//   warps that compute    gather, reduce, finish 0 | 1              | 0 of the next step ...
//   the last producer                              | publishes 0    | publishes 1 ...
//   the other producers                            | fetch 0 ............ | fetch 1 ..........
//
// A step waits for the exchange only as far as that takes longer than the other passes. The price: loads of fewer samples
// (a wavefront serves as many bytes, an instruction fewer), a reduction for each pass, and the registers of the producer
// warps; where these make up whole warpgroups they pass most of theirs on. One warp publishes, so that the warps that
// compute do not wait for its stores. Large states are fetched by the copy engine (bulk_copy.cuh).
//
// Warps that compute do not wait for each other, but for row splits: some reduce while others gather, so that shared
// memory is read all the time. What they wait for is a pass's state, at an mbarrier of the pass: its phase of a step ends
// when all warps that fetch have brought it, and for the first pass the one that publishes the step's input.
//
// And there are two named barriers a pass, at which they arrive without waiting: kComputed, for the warp that publishes,
// and kTaken, once the pass's state has been read, for those that fetch. Nobody comes to one of these twice before all
// have come once: that takes the pass's next state, and to that the words of every SM, this one's own too.

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

// ---- producer warps -------------------------------------------------------------------------------------------------

#if ONCHIP_EXCHANGE == 4
#include "bulk_copy.cuh"
#else
// Where word i of a pass goes, from where the pass's first plane begins.
__device__ __forceinline__ u32 placed_at(int i) {
  if constexpr (kPassPlanes == 1) {
    return 16 * i;
  } else {
    return 16 * i + i / kPlaneWords * (kZeroUnits * kPlaneUnitBytes);
  }
}

// Copies kCount words of a pass, whose first is word `begin` of the state, to shared memory, kFetchThreads apart, the
// last only if it `exists`. Few instructions for each: the warps that compute issue most of the time, and what a producer
// warp does takes several times as long as it would alone.
template <int kCount>
__device__ __forceinline__ void fetch_words(const char* from, int begin, u32 to, int first, bool exists, int& polls) {
  Word v[kCount];
  bool waiting = false;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    v[k] = {0, 0, 0, 0};
    if (k < kCount - 1 || exists) {
      v[k] = load_relaxed(from + in_l2(16 * (begin + first)) + in_l2(16 * k * kFetchThreads));
    }
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    waiting |= is_empty(v[k]);
  }
#pragma unroll 1
  while (waiting) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (is_empty(v[k])) {
        v[k] = load_relaxed(from + in_l2(16 * (begin + first)) + in_l2(16 * k * kFetchThreads));
      }
    }
    waiting = false;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      waiting |= is_empty(v[k]);
    }
    waiting = waiting && polls > 0;
    polls -= waiting;
  }
  __syncwarp();
#pragma unroll
  for (int k = 0; k < kCount - 1; ++k) {
    store_shared(to + placed_at(first + k * kFetchThreads), v[k]);
  }
  store_shared_if(exists, to + placed_at(first + (kCount - 1) * kFetchThreads), v[kCount - 1]);
}

// The words of one pass, kLoadsInFlight of a thread at a time.
__device__ __forceinline__ void fetch_pass(const char* from, u32 to, int pass, int thread, int& polls) {
  to += kPassPlanes * kPlaneBytes * pass;
  constexpr int kRound = kLoadsInFlight * kFetchThreads;
  constexpr int kRest = kPassWords % kRound;
  constexpr int kLast = (kRest + kFetchThreads - 1) / kFetchThreads;  // words of the busiest thread
  int first = thread;
#pragma unroll 1
  for (int round = 0; round < kPassWords / kRound; ++round) {
    fetch_words<kLoadsInFlight>(from, kPassWords * pass, to, first, true, polls);
    first += kRound;
  }
  if constexpr (kLast > 0) {
    fetch_words<kLast>(from, kPassWords * pass, to, first, first + (kLast - 1) * kFetchThreads < kPassWords, polls);
  }
}

// Who has given up takes what is there of others, but still awaits what this SM itself publishes: the warps that compute
// must not be a step ahead of the one that publishes, or its barrier would see them twice. Every such thread awaits all.
__device__ __forceinline__ void await_own_words(const char* state, int pass) {
#pragma unroll 1
  for (int i = 0; i < kPassOutboxWords; ++i) {
#pragma unroll 1
    while (is_empty(load_relaxed(state + outbox_offset(kPassOutboxWords * pass + i)))) {
    }
  }
}

#endif

// A fence now and then (protocol.cuh); whether it was.
__device__ __forceinline__ bool fences(int t) {
  const bool is_time = (t & (kAhead / 4 - 1)) == 0;
  if (is_time) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
  }
  return is_time;
}

#if ONCHIP_EXCHANGE != 4
// The state of every pass of every step, as soon as there is room for it.
__device__ __forceinline__ void fetch_states(const Arguments& a, u32 shared, int thread) {
  const char* state = static_cast<const char*>(a.states);
  int polls = kPolls;
#pragma unroll 1
  for (int t = 0; t < a.steps; ++t) {
#pragma unroll 1
    for (int pass = 0; pass < kPasses; ++pass) {
      if (t > 0) {
        wait_at<kWithFetching>(kTaken + pass);
        wait_before_polling();
      }
      fetch_pass(state, shared, pass, thread, polls);
      if (polls <= 0) {
        await_own_words(state, pass);
      }
      arrive(fetched(shared, pass), thread % 32);
    }
    state += kStateStride;
    if (fences(t)) {
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

#endif

// Publishes what the others have computed, and empties its places of a later step. The outbox is free again once all
// words of the pass can be seen in L2: before this SM has fetched them itself, nobody writes to it. Where the words go is
// known before they are there. The input of a step is asked for two steps ahead, once that of the step before has been
// read, and is there before the step's first pass begins.
__device__ __forceinline__ void publish_states(const Arguments& a, u32 shared, int lane) {
#if ONCHIP_EXCHANGE != 4
  constexpr long long kEmptied = static_cast<long long>(kAhead) * kStateStride;
#endif
  char* to[kPasses];  // this lane's first word of the next state
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    const int first = lane < kPassOutboxWords ? lane : 0;
    to[pass] = static_cast<char*>(a.states) + kStateStride + outbox_offset(kPassOutboxWords * pass + first);
  }
  fetch_input<kInputAt, 32>(a, 0, shared, lane);
  fetch_input<kInputAt, 32>(a, 1, shared, lane);
  wait_for_copies<1>();
  arrive(fetched(shared, 0), lane);
#pragma unroll 1
  for (int t = 0; t < a.steps; ++t) {
#if ONCHIP_EXCHANGE != 4
    const bool empties = t + 1 + kAhead <= a.steps;
#endif
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const u32 from = shared + kOutboxAt + 16 * (kPassOutboxWords * pass + lane);
      wait_at<kWithEmitting>(kComputed + pass);
      if (lane < kPassOutboxWords) {
        store_relaxed(to[pass], load_shared(from));
      }
      if constexpr (kPassOutboxWords > 32) {
#pragma unroll 1
        for (int i = lane + 32; i < kPassOutboxWords; i += 32) {
          emit(to[pass] + outbox_offset(kPassOutboxWords * pass + i) - outbox_offset(kPassOutboxWords * pass + lane),
               kPassOutboxWords * pass + i, shared, t, a.steps);
        }
      }
#if ONCHIP_EXCHANGE == 4
      raise_flag(a, pass, t + 1, lane);
#else
      if (empties && lane < kPassOutboxWords) {
        store_relaxed(to[pass] + kEmptied, {~0u, ~0u, ~0u, ~0u});
      }
#endif
      to[pass] += kStateStride;
      __syncwarp();
      if (pass == 0) {  // of the next step's input
        wait_for_copies<0>();
        arrive(fetched(shared, 0), lane);
      }
    }
    fetch_input<kInputAt, 32>(a, t + 2, shared, lane);
    fences(t);
  }
}

// All that producer warps do; `thread`: of theirs, from 0.
__device__ __forceinline__ void produce_states(const Arguments& a, u32 shared, int thread) {
  have_fetching_registers();
#if ONCHIP_EXCHANGE == 4
  if (thread >= 2 * kFetchThreads) {
    return;
  }
#endif
  if (thread < kFetchThreads) {
    fetch_states(a, shared, thread);
  } else {
    publish_states(a, shared, thread - kFetchThreads);
  }
}

// ---- warps that compute ---------------------------------------------------------------------------------------------

template <int kPass, int kTile = 0>
__device__ __forceinline__ void tiles_of_pass(Weights& weights, const Arguments& a, const Step& step) {
  if constexpr (kTile < kTiles) {
    float sum[kValues] = {};
#if ONCHIP_ROW_SPLITS != 0
    int splits[kTileHeight];
    find_splits<kTile>(step, splits);
    SplitSums split_sums;
    if constexpr (kTile == 0) {
      multiply_splits<kPass, kPass + 1>(weights, step, split_sums);
    }
#endif
    gather_tile<kTile, kPass>(weights, step.shared, step.kept_shared + kOverflowAt + 4 * (step.thread / 32), step.lane,
                              step.thread, sum);
    mark_clock(a, step.number - a.first_step, step.thread, kGathered);
    Output outputs[kOutputs];
    fetch_outputs<kTile, kPass>(step, outputs);
    const Gates gates = find_gates<kTile>(step);
#if ONCHIP_ROW_SPLITS != 0
    if constexpr (kTile == 0) {
      store_splits<kPass, kPass + 1>(step, split_sums);
      wait_at<kThreads>(kComputing);
    }
    add_splits<kPass>(step, splits, sum);
#endif
    reduce<kValues, 1>(sum, step.lane);
    mark_clock(a, step.number - a.first_step, step.thread, kReduced);
    finish<kTile, kPass>(a, step, gates, sum, outputs);
    tiles_of_pass<kPass, kTile + 1>(weights, a, step);
  }
}

// One step, pass by pass; of each pass the clocks are taken, and those of the last stay.
template <int kPass = 0>
__device__ __forceinline__ void passes_step(Weights& weights, const Arguments& a, const Step& step, int t) {
  if constexpr (kPass < kPasses) {
    mark_clock(a, t, step.thread, kStaged);
    await_phase(fetched(step.kept_shared, kPass), t & 1);
    mark_clock(a, t, step.thread, kComplete);
    if constexpr (!kExchangeOnly) {
      if constexpr (kHasOverflow) {
        const u32 begins = step.kept_shared + kOverflowAt + 4 * kRowsPerGroup * kWarps;
        weights.chunk = step.kept_shared + load_shared_int(begins + 4 * (step.thread / 32)) + kLaneBytes * (step.thread % 32);
      }
      tiles_of_pass<kPass>(weights, a, step);
    }
    mark_clock(a, t, step.thread, kFinished);
    mark_clock(a, t, step.thread, kAllFinished);
    __syncwarp();
    arrive_at<kWithEmitting>(kComputed + kPass);
    arrive_at<kWithFetching>(kTaken + kPass);
    mark_clock(a, t, step.thread, kEmitted);
    passes_step<kPass + 1>(weights, a, step, t);
  }
}

__device__ __forceinline__ void compute_steps(Weights& weights, const Arguments& a, u32 shared, u32 kept_shared, int thread) {
  wait_at<kThreads>(kComputing);  // what all have laid out is there
#pragma unroll 1
  for (int t = 0; t < a.steps; ++t) {
    const int place = kManyAddresses ? static_cast<int>(kept(thread)) : thread;
    mark_clock(a, t, place, kBegun);
    const Step step{shared,
                    kept_shared,
                    kept_shared + kInputAt + t % 2 * kInputBytes,
                    a.first_step + t,
                    place,
                    place % 32 / (32 / kSpread) * kNeighbours + place % kNeighbours,
                    place / 32 * (32 / kLanesPerRow) + place % (32 / kSpread) / kNeighbours};
    passes_step(weights, a, step, t);
  }
  if constexpr (kCarries) {
    wait_at<kThreads>(kComputing);
    return_carry(a, shared + kCarryAt, thread);
  }
}
