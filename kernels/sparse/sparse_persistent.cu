// SPDX-License-Identifier: Apache-2.0
// Sparse persistent RNN: h[t+1] = cell(W h[t], x[t]) for all time steps in one cooperative launch, one block per SM.
//
//   registers   this thread's share of W, packed once on the host, loaded once, never read again
//   smem        the whole state h[t], batch contiguous: state[unit][sample]; where a unit's samples exceed the widest
//               load, in planes of one load, state[plane][unit][sample], so that the loads reach every bank;
//               the overflow: what rows have beyond the registers, for each warp as much as its rows need
//   L2          the sequence of states, through which the SMs exchange h[t+1]; overflow that not even shared memory holds,
//               copied through a small ring ahead of their use, in every step
//
//   one step of one SM                                            lane group = ONCHIP_LANES_PER_ROW lanes = one row
//   +--------------------------------------------------------+
//   | stage    poll states[t] until every element is there, copy to smem; block barrier           exchange.cuh
//   | gather   each lane: for its slots, sum += value * state[index]     one wide load serves a whole plane; gather.cuh
//   | reduce   over the lanes of a group, all rows of a tile at once     halving exchange, then butterfly; cell.cuh
//   | finish   the cell, in the lanes that hold the sums -> outbox in smem
//   | emit     block barrier; outbox -> this SM's segment of states[t+1]; a delay before the next poll
//   +--------------------------------------------------------+
//
// With pipelined passes, further warps stage and emit, pass by pass (pipeline.cuh). Where few rows are longer than most,
// they are split (row_splits.cuh).
//
// The state is in owner's order: SM s computes its units [s * ONCHIP_UNITS_PER_SM, ...), whole 16-byte words, and
// writes them with one coalesced store; the input is in that order too (state_order.cu translates). What a step needs of
// the input is copied to shared memory two steps ahead; what is carried from step to step in fp32 (LSTM: c, GRU: h)
// stays there.
//
// The ONCHIP_* constants come from the plan.

#include "kernels/sparse/shape.cuh"  // first: what the others are made for

#include "kernels/persistent/launch.cuh"
#include "kernels/sparse/exchange.cuh"
#include "kernels/sparse/gather.cuh"
#include "kernels/sparse/reduce.cuh"
#include "kernels/sparse/regions.cuh"
#include "kernels/sparse/row_splits.cuh"
#include "kernels/sparse/tile.cuh"
#if ONCHIP_PRODUCER_WARPS != 0
#include "kernels/sparse/pipeline.cuh"
#endif

template <int kTile, int kPass>
__device__ __forceinline__ void tiles_step(Weights& weights, const Arguments& a, const Step& step) {
  if constexpr (kPass == kPasses) {
    tiles_step<kTile + 1, 0>(weights, a, step);
  } else if constexpr (kTile < kTiles) {
    compute_tile<kTile, kPass, 0, kPasses>(weights, a, step, [] { __syncthreads(); });
    tiles_step<kTile, kPass + 1>(weights, a, step);
  }
}

// The overflow of this warp's rows: those of shared memory, all of the block at once, and the first of the streamed ones.
__device__ __forceinline__ void load_overflow(const Arguments& a, Weights& weights, u32 shared, int thread,
                                           const char* chunks) {
#pragma unroll 1
  for (int i = thread; i < ONCHIP_SHARED_CHUNKS * (kChunkBytes / 16); i += kThreads) {
    copy_16(shared + kChunksAt + 16 * i, chunks + 16ll * i);
  }
  const int* const overflow = a.overflow + blockIdx.x * (kOverflowInts + 2 * kWarps);
#pragma unroll 1
  for (int i = thread; i < kOverflowInts; i += kThreads) {
    store_shared_int(shared + kOverflowAt + 4 * i, overflow[i]);
  }
  if constexpr (kRingChunks > 0) {
    const int warp = thread / 32, lane = thread % 32;
    weights.list = a.streamed + static_cast<long long>(overflow[kOverflowInts + warp]) * kChunkBytes + 16 * lane;
    weights.streamed = overflow[kOverflowInts + kWarps + warp];
    weights.ring = weights.ring_begin = shared + kRingAt + warp * (kRingChunks * kChunkBytes);
    if (weights.streamed > 0) {
#pragma unroll 1
      for (int i = 0; i < kRingChunks - 1; ++i) {
        fetch_chunk(weights, weights.ring_begin + kChunkBytes * i, lane);
      }
    }
  }
}

#if ONCHIP_PRODUCER_WARPS != 0
extern "C" __global__ void __launch_bounds__(kBlockThreads, 1) sparse_persistent(const Arguments a) {
#else
extern "C" __global__ void __launch_bounds__(kThreads, 1) sparse_persistent(const Arguments a) {
#endif
  const u32 shared = static_cast<u32>(__cvta_generic_to_shared(shared_memory));
  const u32 kept_shared = kept(shared);
  const int thread = kept(threadIdx.x);
  prepare_capture(a.record);

#pragma unroll 1
  for (int i = thread; i < kChunksAt / 16; i += kThreads) {
    store_shared(shared + 16 * i, {0, 0, 0, 0});
  }
  __syncthreads();
#if ONCHIP_PRODUCER_WARPS != 0
  prepare_pipeline(kept_shared, thread);
  __syncthreads();
  if (thread >= kThreads) {
    produce_states(a, kept_shared, thread - kThreads);
    return;
  }
  have_computing_registers();
#endif

  constexpr long long kBlockWords = kRegisterWords * kThreads + ONCHIP_SHARED_CHUNKS * (kChunkBytes / 4ll);
  const u32* const block_weights = a.weights + blockIdx.x * kBlockWords;
  Weights weights{};
#ifdef ONCHIP_NARROW_THREAD
  // As an index the thread's number takes a pair of registers, and ptxas (13.0) keeps it in the same pair before and after
  // the producer warps part and have other registers to choose from: where it finds none for both, it spills that pair,
  // and others with it.
  const u32* thread_weights;
  asm("mad.wide.u32 %0, %1, 4, %2;" : "=l"(thread_weights) : "r"(thread), "l"(block_weights));
#endif
#pragma unroll
  for (int i = 0; i < kRegisterWords; ++i) {
#ifdef ONCHIP_NARROW_THREAD
    weights.registers[i] = thread_weights[i * kThreads];
#else
    weights.registers[i] = block_weights[i * kThreads + thread];
#endif
    asm volatile("" : "+r"(weights.registers[i]));  // not loadable again: the compiler must keep the register
  }
  if constexpr (kHasOverflow) {
    load_overflow(a, weights, kept_shared, thread, reinterpret_cast<const char*>(block_weights + kRegisterWords * kThreads));
  }
#if ONCHIP_ROW_SPLITS != 0
  load_split_table(a, kept_shared, thread);
#endif
  if constexpr (kCarries) {
    take_carry(a, shared + kCarryAt, shared + kLengthsAt, thread);
#pragma unroll 1
    for (int i = thread; i < kUnitsPerSm; i += kThreads) {
      store_shared_int(shared + kGatesAt + 4 * i, a.gates[blockIdx.x * kUnitsPerSm + i]);
    }
  }
  if constexpr (kCell == kGru) {
    take_bias(a, shared + kBiasAt, thread);
  }
  if constexpr (kPrecision == kFp8) {
#pragma unroll 1
    for (int i = thread; i < kUnitsPerSm * kGates; i += kThreads) {
      store_shared_float(shared + kScaleAt + 4 * i, a.scales[blockIdx.x * kUnitsPerSm * kGates + i]);
    }
  }
#if ONCHIP_PRODUCER_WARPS != 0
  end_copies();  // of overflow
  wait_for_copies<0>();
  compute_steps(weights, a, shared, kept_shared, thread);
#else
  fetch_input<kInputAt>(a, 0, kept_shared, thread);
  fetch_input<kInputAt>(a, 1, kept_shared, thread);
  wait_for_copies<0>();
  int polls = kPolls;
  const char* state = static_cast<const char*>(a.states);  // of step t
  char* outbox_word = static_cast<char*>(a.states) + kStateStride + outbox_offset(thread);  // of step t + 1

#pragma unroll 1
  for (int t = 0; t < a.steps; ++t) {
    const int place = kManyAddresses ? static_cast<int>(kept(thread)) : thread;
    steer_capture(t);
    mark_clock(a, t, place, Mark::begun);
    stage(state, kept_shared, place, polls);
    mark_clock(a, t, place, Mark::staged);
    state += kStateStride;
    if ((t & (kAhead / 4 - 1)) == 0) {
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
      renew_polls(a.status, polls);
    }
    wait_for_copies<1>();  // the input of this step; that of the next may be under way
    __syncthreads();
    mark_clock(a, t, place, Mark::complete);

    const Step step{shared,
                    kept_shared,
                    kept_shared + kInputAt + t % 2 * kInputBytes,
                    a.first_step + t,
                    place,
                    place % 32 / (32 / kSpread) * kNeighbours + place % kNeighbours,
                    place / 32 * (32 / kLanesPerRow) + place % (32 / kSpread) / kNeighbours};
    if constexpr (!kExchangeOnly) {
      if constexpr (kHasOverflow) {
        const u32 begins = kept_shared + kOverflowAt + 4 * kRowsPerGroup * kWarps;
        weights.chunk = kept_shared + load_shared_int(begins + 4 * (place / 32)) + kLaneBytes * (place % 32);
      }
      tiles_step<0, 0>(weights, a, step);
    }
    mark_clock(a, t, place, Mark::finished);
    __syncthreads();
    mark_clock(a, t, place, Mark::all_finished);

    if (thread < kOutboxWords) {
      emit(outbox_word, thread, kept_shared, t, a.steps);
    }
    if constexpr (kOutboxWords > kThreads) {
#pragma unroll 1
      for (int i = thread + kThreads; i < kOutboxWords; i += kThreads) {
        emit(outbox_word + outbox_offset(i) - outbox_offset(thread), i, kept_shared, t, a.steps);
      }
    }
    converge_for_capture();
    outbox_word += kStateStride;
    mark_clock(a, t, place, Mark::emitted);
    // While the others' states are on their way: this step's input is no longer needed.
    fetch_input<kInputAt>(a, t + 2, kept_shared, thread);
    if constexpr (kExchange != kLamport) {
      __syncthreads();
      if (thread == 0) {
        wait_for_blocks(a.barrier, t + 1, polls);
      }
      __syncthreads();
    }
    if (t + 1 < a.steps) {
      wait_before_polling();
    }
  }
  if (polls <= 0) {
    *a.status = 1;
  }
  wait_for_copies<0>();
  if constexpr (kCarries) {
    __syncthreads();
    return_carry(a, shared + kCarryAt, thread);
  }
#endif
}
