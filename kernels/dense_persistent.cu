// SPDX-License-Identifier: Apache-2.0
// Dense persistent RNN on tensor cores: h[t+1] = cell(W h[t], x[t]) for all time steps in one cooperative launch, one
// block per SM.
//
//   registers   fragments of W, packed once on the host, loaded once, never read again
//   smem        the fragments that registers cannot hold; the warps' sums; input and carry
//   L2          the sequence of states, through which the SMs exchange h[t+1]
//
// The rows of an SM's units are multiplied by all its warps, each with its own share of the columns: so a warp needs only
// its share of the state, and takes it from L2 straight into the registers of the tensor cores' operand.
//
//   one step of one SM
//   +--------------------------------------------------------+
//   | poll      each warp: its share of states[t], 16 bytes a lane, until every element is there
//   | multiply  what has come, while the next is on its way                                           multiply.cuh
//   | combine   the warps' sums to smem; block barrier; one thread sums what one unit and sample needs   combine.cuh
//   | finish    the cell, in that thread; two neighbouring units to one word
//   | emit      the word to states[t+1]; block barrier, while the others' words are on their way
//   +--------------------------------------------------------+
//
// The state is in owner's order: SM s computes its units [s * ONCHIP_UNITS_PER_SM, ...). A unit's place is its number. What
// a step needs of the input is copied to shared memory two steps ahead; what is carried from step to step in fp32 (LSTM: c,
// GRU: h) stays there.
//
// The ONCHIP_* constants come from the plan.

#include "state.cuh"
#include "spans.cuh"
#include "memory.cuh"
#include "protocol.cuh"
#include "launch.cuh"
#include "activation.cuh"
#include "multiply.cuh"
#include "combine.cuh"

// Shared memory: tiles [kWarps][kSharedTiles], then these, each in whole 16-byte words (sizes: shared_bytes() in
// model/plan.cpp).
constexpr int kPartialsAt = kWarps * kSharedTiles * kTileBytes;      // see combine.cuh
constexpr int kInputAt = kPartialsAt + kWarps * kPartialBytes;       // [2][kBatch][kUnitsPerSm][kGates], this step's and the next's
constexpr int kCarryAt = kInputAt + 2 * kInputBytes;                 // float [kUnitsPerSm][kBatchPadded]
constexpr int kLengthsAt = kCarryAt + (kCarries ? whole_words(4 * kUnitsPerSm * kBatchPadded) : 0);  // int [kBatchPadded]
constexpr int kBiasAt = kLengthsAt + (kCarries ? whole_words(4 * kBatchPadded) : 0);                 // GRU: float [kUnitsPerSm]
constexpr int kSharedBytes = kBiasAt + (kCell == kGru ? whole_words(4 * kUnitsPerSm) : 0);
static_assert(kSharedBytes == ONCHIP_SHARED_BYTES, "the plan and the kernel count the same shared memory");

// Hands out one word, and empties its place of a later step.
__device__ __forceinline__ void emit(char* to, u32 word, int t, int steps) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(word) : "memory");
  if (kExchange == kLamport && t + 1 + kAhead <= steps) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to + static_cast<long long>(kAhead) * kStateBytes), "r"(~0u)
                 : "memory");
  }
}

// The last span may reach beyond the last SM's units: nobody's, and zero.
__device__ __forceinline__ void emit_padding(char* state, int t, int steps, int thread) {
  constexpr int kPadding = (kSpans * kSpanUnits - kStateUnits) / 2;  // words of a sample
  if (kPadding > 0 && blockIdx.x == kBlocks - 1) {
#pragma unroll 1
    for (int i = thread; i < kPadding * kBatch; i += kThreads) {
      emit(state + kElementBytes * state_index(kStateUnits + i / kBatch * 2, i % kBatch), 0, t, steps);
    }
  }
}

// Everything of a step after the block's barrier: sums, cells, and the SM's words of the next state.
__device__ __forceinline__ void finish(const Arguments& a, char* next_state, u32 shared, int t, int thread) {
#pragma unroll 1
  for (int i = thread; i < kItems; i += kThreads) {
    const Item item = item_of(i);
    const u32 input = shared + kInputAt + t % 2 * kInputBytes;
    const u32 carry_at = shared + kCarryAt + 4 * (item.unit * kBatchPadded + item.sample);
    float carry = kCarries ? load_shared_float(carry_at) : 0.0f;
    float sums[kThreadRows] = {};
    if constexpr (!kExchangeOnly) {
      const u32 rows = 4 * (item.sample * kPartialRows + item.unit * kGates);
      sum_partials<0, kBusyWarps>(shared + kPartialsAt + rows, sums);
    }
    u32 halves[kThreadUnits];
#pragma unroll
    for (int k = 0; k < kThreadUnits; ++k) {
      float x[kGates], sum[kGates];
      load_input(input + kElementBytes * kGates * (item.sample * kUnitsPerSm + item.unit + k), x);
#pragma unroll
      for (int g = 0; g < kGates; ++g) {
        sum[g] = sums[k * kGates + g];
      }
      const float bias = kCell == kGru ? load_shared_float(shared + kBiasAt + 4 * item.unit) : 0.0f;
      const float h = kExchangeOnly ? 0.0f : apply_cell(sum, x, bias, carry);
      halves[k] = to_bits(is_unit(item.unit + k) ? h : 0.0f);
    }
    bool writes = item.exists;
    if constexpr (kCarries) {
      store_shared_if(item.exists, carry_at, carry);
      if (item.exists && a.first_step + t + 1 == load_shared_int(shared + kLengthsAt + 4 * item.sample)) {
        a.final_carry[(static_cast<long long>(blockIdx.x) * kUnitsPerSm + item.unit) * kBatchPadded + item.sample] = carry;
      }
      writes = item.exists && item.unit % 2 == 0;
    }
    const u32 upper = kGates == 1 ? halves[kThreadUnits - 1] : __shfl_xor_sync(0xffffffffu, halves[0], 16);
    if (writes) {
      const int place = static_cast<int>(blockIdx.x) * kUnitsPerSm + item.unit;
      emit(next_state + kElementBytes * state_index(place, item.sample), halves[0] | upper << 16, t, a.steps);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1) dense_persistent(const Arguments a) {
  const u32 shared = static_cast<u32>(__cvta_generic_to_shared(shared_memory));
  const int thread = kept(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32;

  constexpr long long kBlockWords = kTiles * kWarps * (kTileBytes / 4ll);
  const u32* const block_weights = a.weights + blockIdx.x * kBlockWords;
  Weights weights{};
#pragma unroll
  for (int i = 0; i < kRegisterTiles; ++i) {
    const Word v = reinterpret_cast<const Word*>(block_weights)[(warp * kRegisterTiles + i) * 32 + lane];
    const u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      weights.registers[i][k] = words[k];
      asm volatile("" : "+r"(weights.registers[i][k]));  // not loadable again: the compiler must keep the register
    }
  }
  const char* const shared_weights = reinterpret_cast<const char*>(block_weights) + kWarps * kRegisterTiles * kTileBytes;
#pragma unroll 1
  for (int i = thread; i < kPartialsAt / 16; i += kThreads) {
    copy_16(shared + 16 * i, shared_weights + 16ll * i);
  }
  if constexpr (kCarries) {
    take_carry(a, shared + kCarryAt, shared + kLengthsAt, thread);
  }
  if constexpr (kCell == kGru) {
    take_bias(a, shared + kBiasAt, thread);
  }
  fetch_input<kInputAt>(a, 0, shared, thread);
  fetch_input<kInputAt>(a, 1, shared, thread);
  wait_for_copies<0>();
  __syncthreads();

  const int spans = min(kSpans - warp * kWarpSpans, kWarpSpans);
  Source source{static_cast<const char*>(a.states) + static_cast<long long>(warp) * kWarpSpans * kSpanBytes + 16 * lane,
                kSpans % kWarpSpans == 0 && kBusyWarps == kWarps ? kWarpSpans : spans,
                kBatch % 8 == 0 ? kSampleTiles : (kBatch - lane / 4 + 7) / 8};
  char* next_state = static_cast<char*>(a.states) + kStateBytes;
  const u32 partials = shared + kPartialsAt + warp * kPartialBytes;
  int polls = kPolls;

#pragma unroll 1
  for (int t = 0; t < a.steps; ++t) {
    mark_clock(a, t, thread, kBegun);
    emit_padding(next_state, t, a.steps, thread);
    weights.shared = kept(shared + (warp * kSharedTiles * 32 + lane) * 16);
    Sums sums{};
    multiply_state(weights, source, polls, sums);
    mark_clock(a, t, thread, kStaged);
    source.state += kStateBytes;
    if ((t & (kAhead / 4 - 1)) == 0) {
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
      if (polls <= 0) {
        *a.status = 1;
      } else {
        polls = kPolls;
      }
    }
    mark_clock(a, t, thread, kComplete);
    if constexpr (!kExchangeOnly) {
      store_partials(partials, sums, lane);
    }
    mark_clock(a, t, thread, kGathered);
    wait_for_copies<1>();  // the input of this step; that of the next may be under way
    __syncthreads();
    mark_clock(a, t, thread, kReduced);
    finish(a, next_state, shared, t, thread);
    mark_clock(a, t, thread, kFinished);
    next_state += kStateBytes;
    __syncthreads();
    mark_clock(a, t, thread, kAllFinished);
    // While the others' states are on their way: this step's input is no longer needed.
    fetch_input<kInputAt>(a, t + 2, shared, thread);
    if constexpr (kExchange != kLamport) {
      if (thread == 0) {
        wait_for_blocks(a.barrier, t + 1, polls);
      }
      __syncthreads();
    }
    mark_clock(a, t, thread, kEmitted);
  }
  wait_for_copies<0>();
  if constexpr (kCarries) {
    hand_back_carry(a, shared + kCarryAt, thread);
  }
}
