// SPDX-License-Identifier: Apache-2.0
// Dense persistent RNN on tensor cores: h[t+1] = cell(W h[t], x[t]) for all time steps in one cooperative launch, one
// block per SM.
//
//   registers   fragments of W, packed once on the host, loaded once, never read again; of a 2:4 matrix half as many, for
//               sparse tensor cores
//   smem        the fragments that registers cannot hold, all of them or without their empty words; the warps' sums; input
//               and carry
//   L2          the sequence of states, through which the SMs exchange h[t+1]; or, if they are one cluster, they store it
//               into each other's shared memory                                                           cluster.cuh
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
// The blocks are kBatchGroups times kBlocks; each batch group computes its own samples, and knows nothing of the others.
//
// The state is in owner's order: SM s computes its units [s * ONCHIP_UNITS_PER_SM, ...). A unit's place is its number. What
// a step needs of the input is copied to shared memory two steps ahead; what is carried from step to step in fp32 (LSTM: c,
// GRU: h) stays there.
//
// The ONCHIP_* constants come from the plan.

#include "kernels/dense/shape.cuh"  // first: what the others are made for

#include "kernels/dense/cluster.cuh"
#include "kernels/dense/combine.cuh"
#include "kernels/dense/multiply.cuh"
#include "kernels/dense/partials.cuh"
#include "kernels/persistent/launch.cuh"
#include "kernels/persistent/memory.cuh"
#include "kernels/persistent/protocol.cuh"

// Shared memory begins with the tiles [kWarps][kSharedTiles], or their words [ONCHIP_BANK_WORDS][32]; the model's map
// (DenseRegion of model/dense/geometry.hpp) says where the rest is, as ONCHIP_AT_<REGION>.
constexpr int kClusterAt = ONCHIP_AT_CLUSTER;  // the states of two steps, and their barriers
static_assert(ONCHIP_AT_TILES == 0 && kPartialsAt == kSharedWeightBytes &&
                  ONCHIP_SHARED_BYTES == kClusterAt + (kInCluster ? 2 * kStateBytes + 16 : 0),
              "the plan and the kernel count the same shared memory");

__device__ __forceinline__ void store_word(char* to, u32 word) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(word) : "memory");
}
// Publishes one word, and empties its place of a later step.
__device__ __forceinline__ void emit(char* to, u32 word, int t, int steps) {
  store_word(to, word);
  if (kExchange == kLamport && t + 1 + kAhead <= steps) {
    store_word(to + static_cast<long long>(kAhead) * kStateStride, ~0u);
  }
}

// The last span may reach beyond the last SM's units: nobody's words, and zero in every state. They need not be emptied,
// only zero before anybody polls, and each SM sees to a share of them: kAhead steps before, while the others' states are
// on their way.
constexpr int kPadding = (kSpans * kSpanUnits - kStateUnits) / 2;  // words of a sample
__device__ __forceinline__ void zero_padding(char* state, int thread) {
  if constexpr (kPadding > 0 && !kInCluster) {
#pragma unroll 1
    for (int i = thread * kBlocks + sm_of_group(); i < kPadding * kGroupBatch; i += kThreads * kBlocks) {
      store_word(state + in_l2(kElementBytes * index_in_group(kStateUnits + i / kGroupBatch * 2, i % kGroupBatch)), 0);
    }
  }
}

__device__ __forceinline__ ClusterState in_cluster(u32 shared) {
  return {shared + kClusterAt, shared + kClusterAt + 2 * kStateBytes};
}

// Everything of an item after the block's barrier: sums, cell, and its word of the next state.
__device__ __forceinline__ void finish(const Arguments& a, const Prepared& p, char* next_state, u32 shared, int i, int t) {
  float sums[kThreadRows] = {};
  if constexpr (!kExchangeOnly) {
    sum_partials<0, kBusyWarps>(p.item.partials, sums);
  }
  float carry = p.carry;
  u32 halves[kThreadUnits];
#pragma unroll
  for (int k = 0; k < kThreadUnits; ++k) {
    float x[kGates], sum[kGates];
#pragma unroll
    for (int g = 0; g < kGates; ++g) {
      x[g] = element(p.input, k * kGates + g);
      sum[g] = sums[k * kGates + g];
    }
    const float h = kExchangeOnly ? 0.0f : apply_cell(sum, x, p.bias, carry);
    const bool is_unit = kStateUnits == kHidden || !(p.item.place & (k == 0 ? kFirstIsNone : kSecondIsNone));
    halves[k] = to_bits(is_unit ? h : 0.0f);
  }
  const u32 upper = kGates == 1 ? halves[kThreadUnits - 1] : __shfl_xor_sync(0xffffffffu, halves[0], 1);
  const u32 place = p.item.place & ~3u;
  const bool writes = kGates == 1 || !(p.item.place & kWritesNothing);
  if constexpr (kInCluster && kGates > 1) {  // both lanes of a pair send its word
    const bool is_upper = threadIdx.x % 2;
    const u32 lower_place = __shfl_sync(0xffffffffu, p.item.place, threadIdx.x % 32 & ~1u);
    if (t + 1 < a.steps && !(lower_place & kWritesNothing)) {
      const u32 word = is_upper ? upper | halves[0] << 16 : halves[0] | upper << 16;
      send<2>(in_cluster(shared), place, word, t + 1, is_upper);
    }
  } else if (kInCluster && t + 1 < a.steps) {
    send(in_cluster(shared), place, halves[0] | upper << 16, t + 1);
  }
  if (writes) {
    emit(next_state + place, halves[0] | upper << 16, t, a.steps);
  }
  if constexpr (kCarries) {
    store_shared_float(shared + kCarryAt + 4 * i, carry);
    if (t == p.item.last) {
      a.final_carry[carry_index(of_item(kept(i)))] = carry;  // computed here, not kept over all steps
    }
  }
}

// Only the first batch group's steps are clocked.
__device__ __forceinline__ void mark(const Arguments& a, int t, int thread, Mark mark) {
  if (kBatchGroups == 1 || batch_group() == 0) {
    mark_clock(a, t, thread, mark);
  }
}

extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(kThreads, 1) dense_persistent(const Arguments a) {
  const u32 shared = static_cast<u32>(__cvta_generic_to_shared(shared_memory));
  const int thread = kept(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32;

  constexpr long long kTileWords = kRegisterTiles * kWarps * (kTileBytes / 4ll) + kSharedWeightBytes / 4;
  constexpr long long kBlockWords = kTileWords + kWarps * kMetadataWords * 32ll;
  const u32* const block_weights = a.weights + sm_of_group() * kBlockWords;
  Weights weights{};
  load_registers(weights, reinterpret_cast<const Word*>(block_weights), warp, lane);
#pragma unroll
  for (int i = 0; i < kMetadataWords; ++i) {
    weights.metadata[i] = block_weights[kTileWords + (warp * kMetadataWords + i) * 32 + lane];
    asm volatile("" : "+r"(weights.metadata[i]));
  }
  const char* const shared_weights = reinterpret_cast<const char*>(block_weights) + kWarps * kRegisterTiles * kTileBytes;
#pragma unroll 1
  for (int i = thread; i < kPartialsAt / 16; i += kThreads) {
    copy_16(shared + 16 * i, shared_weights + 16ll * i);
  }
  lay_items(a, shared, shared + kPartialsAt, thread);
  fetch_items(a, 0, shared, thread);
  fetch_items(a, 1, shared, thread);
  wait_for_copies<0>();
  __syncthreads();

  weights.zero = static_cast<u32>(a.steps) >> 31;
  const int spans = min(kSpans - warp * kWarpSpans, kWarpSpans);
  char* const states = static_cast<char*>(a.states) + batch_group() * kGroupStride;
  const u32 place = warp * kWarpSpans * kSpanBytes + 16 * lane;
  Source source{states + in_l2(place), place, kSpans == kWarps * kWarpSpans ? kWarpSpans : spans,
                kGroupBatch % 8 == 0 ? kSampleTiles : (kGroupBatch - lane / 4 + 7) / 8};
  if constexpr (kInCluster) {
    begin_cluster(in_cluster(shared), states, thread);
  }
  char* next_state = states + kStateStride;
#pragma unroll 1
  for (int step = 1; step <= min(a.steps, kAhead); ++step) {  // the host empties these, the padding with them
    zero_padding(states + static_cast<long long>(step) * kStateStride, thread);
  }
  const u32 partials = shared + kPartialsAt + warp * kPartialBytes;
  int polls = kPolls;

#pragma unroll 1
  for (int t = 0; t < a.steps; ++t) {
    mark(a, t, thread, Mark::begun);
    weights.shared = kept(shared + (kIsCompact ? weights.metadata[kBegin] : (warp * kSharedTiles * 32 + lane) * 16));
    Sums sums{};
    if constexpr (kInCluster) {
      if (t > 0) {
        await_state(in_cluster(shared), t, thread, polls);
      }
      mark(a, t, thread, Mark::staged);
      multiply_shared_state(weights, source, in_cluster(shared).state(t), sums);
    } else {
      multiply_state(weights, source, polls, sums);
      mark(a, t, thread, Mark::staged);
      source.state += kStateStride;
    }
    if ((t & (kAhead / 4 - 1)) == 0) {
      if constexpr (!kInCluster) {
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
      }
      renew_polls(a.status, polls);
    }
    mark(a, t, thread, Mark::complete);
    wait_for_copies<1>();  // the input of this step; that of the next may be under way
    Prepared prepared{};
    if (kItems >= kThreads || thread < kItems) {
      prepared = prepare(shared, thread, t);
    }
    if constexpr (!kExchangeOnly) {
      store_partials(partials, sums, lane);
    }
    mark(a, t, thread, Mark::gathered);
    __syncthreads();
    mark(a, t, thread, Mark::reduced);
    if (kItems >= kThreads || thread < kItems) {
      finish(a, prepared, next_state, shared, thread, t);
    }
    if constexpr (kItems > kThreads) {
#pragma unroll 1
      for (int i = thread + kThreads; i < kItems; i += kThreads) {
        finish(a, prepare(shared, i, t), next_state, shared, i, t);
      }
    }
    mark(a, t, thread, Mark::finished);
    __syncthreads();
    mark(a, t, thread, Mark::all_finished);
    fetch_items(a, t + 2, shared, thread);  // while the others' states are on their way
    if (t + 1 + kAhead <= a.steps) {
      zero_padding(next_state + static_cast<long long>(kAhead) * kStateStride, thread);
    }
    next_state += kStateStride;
    if constexpr (kExchange != kLamport && !kInCluster) {
      if (thread == 0) {
        wait_for_blocks(a.barrier, t + 1, polls);
      }
      __syncthreads();
    }
    mark(a, t, thread, Mark::emitted);
    if (t + 1 < a.steps) {
      wait_before_polling();
    }
  }
  if (polls <= 0) {
    *a.status = 1;
  }
  wait_for_copies<0>();
  if constexpr (kCarries) {
    return_carries(a, shared, thread);
  }
  if constexpr (kInCluster) {
    wait_for_cluster();  // no SM leaves while another may store into its shared memory
  }
}
