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
#pragma once

#include "kernels/persistent/launch.cuh"
#include "kernels/sparse/exchange.cuh"
#include "kernels/sparse/pass_barriers.cuh"
#include "kernels/sparse/tile.cuh"
#if ONCHIP_EXCHANGE == 4
#include "kernels/sparse/bulk_copy.cuh"
#else
#include "kernels/sparse/poll_passes.cuh"
#endif

// ---- producer warps -------------------------------------------------------------------------------------------------

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
    compute_tile<kTile, kPass, kPass, kPass + 1>(weights, a, step, [] { wait_at<kThreads>(kComputing); });
    tiles_of_pass<kPass, kTile + 1>(weights, a, step);
  }
}

// One step, pass by pass; of each pass the clocks are taken, and those of the last stay.
template <int kPass = 0>
__device__ __forceinline__ void passes_step(Weights& weights, const Arguments& a, const Step& step, int t) {
  if constexpr (kPass < kPasses) {
    mark_clock(a, t, step.thread, Mark::staged);
    await_phase(fetched(step.kept_shared, kPass), t & 1);
    mark_clock(a, t, step.thread, Mark::complete);
    if constexpr (!kExchangeOnly) {
      if constexpr (kHasOverflow) {
        const u32 begins = step.kept_shared + kOverflowAt + 4 * kRowsPerGroup * kWarps;
        weights.chunk = step.kept_shared + load_shared_int(begins + 4 * (step.thread / 32)) + kLaneBytes * (step.thread % 32);
      }
      tiles_of_pass<kPass>(weights, a, step);
    }
    mark_clock(a, t, step.thread, Mark::finished);
    mark_clock(a, t, step.thread, Mark::all_finished);
    __syncwarp();
    arrive_at<kWithEmitting>(kComputed + kPass);
    arrive_at<kWithFetching>(kTaken + kPass);
    mark_clock(a, t, step.thread, Mark::emitted);
    passes_step<kPass + 1>(weights, a, step, t);
  }
}

__device__ __forceinline__ void compute_steps(Weights& weights, const Arguments& a, u32 shared, u32 kept_shared, int thread) {
  wait_at<kThreads>(kComputing);  // what all have laid out is there
#pragma unroll 1
  for (int t = 0; t < a.steps; ++t) {
    const int place = kManyAddresses ? static_cast<int>(kept(thread)) : thread;
    mark_clock(a, t, place, Mark::begun);
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
