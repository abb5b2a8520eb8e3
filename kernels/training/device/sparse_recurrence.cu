// SPDX-License-Identifier: Apache-2.0
// A sparse LSTM's recurrences of a training step, forward and backward (ONCHIP_BACKWARD), each in one cooperative
// launch: non-zeros stay in registers and shared memory, and the SMs exchange the state through L2 by Lamport words.
//
//   one step of one SM
//   +--------------------------------------------------------+
//   | stage    its columns of the state to shared memory; block barrier      stage.cuh
//   | gather   each lane: its non-zeros, pass by pass; the state of other
//   |          passes is copied while the first is computed                  sparse/gather.cuh
//   | reduce   over the lanes of a group, to sums in shared memory; barrier  sparse/reduce.cuh
//   | add up   the sums of a cluster                                         split.cuh
//   | finish   a thread: one unit of some samples                            forward.cuh, backward.cuh
//   | emit     barrier; the SM's words to the ring
//   +--------------------------------------------------------+
//
// The ring is that of training_recurrence.cu.

#include "kernels/training/device/sparse_shape.cuh"  // first: what the others are made for
#include "kernels/training/device/sparse_stage.cuh"

#include "kernels/persistent/memory.cuh"
#include "kernels/persistent/protocol.cuh"
#include "kernels/persistent/ranks.cuh"
#include "kernels/sparse/gather.cuh"
#include "kernels/sparse/reduce.cuh"
#include "kernels/sparse/stage_words.cuh"
#include "kernels/training/device/item.cuh"
#include "kernels/training/device/split.cuh"
#if ONCHIP_BACKWARD
#include "kernels/training/device/backward.cuh"
#else
#include "kernels/training/device/forward.cuh"
#endif

// Of sums of an SM.
struct SumOfBlock {
  __device__ __forceinline__ void operator()(u32 address, float (&rows)[kThreadRows]) const {
    if constexpr (kThreadRows == 4) {
      const Word v = load_shared(address);
      rows[0] = __uint_as_float(v.x);
      rows[1] = __uint_as_float(v.y);
      rows[2] = __uint_as_float(v.z);
      rows[3] = __uint_as_float(v.w);
    } else {
      rows[0] = load_shared_float(address);
    }
  }
};

// In shared memory, behind the state and the outbox.
constexpr int kPartialsAt = kOutboxAt + 16 * kOutboxWords;
constexpr int kCarryAt = kPartialsAt + kPartialBytes;
constexpr int kReceivedAt = kCarryAt + kThreadItems * kThreads * 4;
constexpr int kBarriersAt = kReceivedAt + kReceivedBytes;
constexpr int kRowsAt = kBarriersAt + 16;  // int [kRowsPerGroup][kGroups]
constexpr int kTableInts = kRowsPerGroup * kGroups;
constexpr int kOverflowAt = kRowsAt + 4 * kTableInts;
constexpr int kChunksAt = (kOverflowAt + 4 * kOverflowInts + 15) / 16 * 16;
static_assert(ONCHIP_SHARED_BYTES == kChunksAt + ONCHIP_SHARED_CHUNKS * kChunkBytes,
              "the plan and the kernel count the same shared memory");

// Gradients are small, and fp16 products of them smaller: their weights are packed so much larger.
constexpr float kUnscale = 1.0f / ONCHIP_WEIGHT_SCALE;

// The products of one pass, through all tiles.
template <int kPass, int kTile = 0>
__device__ __forceinline__ void multiply_pass(Weights& weights, const Step& step) {
  if constexpr (kTile < kTiles) {
    float sum[kValues] = {};
    gather_tile<kTile, kPass % kBuffers>(weights, step.shared, step.kept_shared + kOverflowAt + 4 * (step.thread / 32), step.lane,
                              step.thread, sum);
    u32 to[kOutputs];
    bool writes[kOutputs];
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
      const int value = (step.lane & (kValues - 1)) + i * kLanesPerRow;
      const int row = kTile * kTileRows + value % kTileRows;
      const int sample = kPass * kPassSamples + value / kTileRows;
      const bool exists = row < kRowsPerGroup;
      const int place = load_shared_int(step.kept_shared + kRowsAt + 4 * ((exists ? row : 0) * kGroups + step.group));
      writes[i] = exists && step.lane < kValues && sample < kGroupBatch && place >= 0;
      to[i] = step.kept_shared + kPartialsAt + 4 * (sample * kPartialRows + place);
    }
    reduce<kValues, 1>(sum, step.lane);
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
      store_shared_if(writes[i], to[i], sum[i] * kUnscale);
    }
    multiply_pass<kPass, kTile + 1>(weights, step);
  }
}

template <int kPass = 0>
__device__ __forceinline__ void multiply(Weights& weights, const Step& step, const char* state, int& polls) {
  if constexpr (kPass < kPasses) {
    if constexpr (kPass > 0) {
      // Computed anew in every step, or the compiler keeps the addresses of all planes.
      await_plane<kPass>(state, step.kept_shared, kept(step.thread), polls);
      __syncthreads();
      ask_plane<kPass - 1 + kBuffers>(state, step.kept_shared, kept(step.thread));  // where all have computed
    }
    if constexpr (kHasOverflow) {
      weights.chunk = step.kept_shared + kChunksAt - ONCHIP_CHUNKS_FROM + kLaneBytes * (step.thread % 32) +
                      load_shared_int(step.kept_shared + kOverflowAt + 4 * (kRowsPerGroup * kWarps + step.thread / 32));
    }
    multiply_pass<kPass>(weights, step);
    multiply<kPass + 1>(weights, step, state, polls);
  }
}

__device__ __forceinline__ void load_weights(const Arguments& a, Weights& weights, u32 shared, int thread) {
  constexpr long long kBlockWords = kRegisterWords * kThreads + ONCHIP_SHARED_CHUNKS * (kChunkBytes / 4ll);
  const u32* const words = a.packed + blockIdx.x * kBlockWords;
#pragma unroll
  for (int i = 0; i < kRegisterWords; ++i) {
    weights.registers[i] = words[i * kThreads + thread];
    asm volatile("" : "+r"(weights.registers[i]));  // not loadable again: the compiler must keep the register
  }
  const char* const chunks = reinterpret_cast<const char*>(words + kRegisterWords * kThreads);
#pragma unroll 1
  for (int i = thread; i < ONCHIP_SHARED_CHUNKS * (kChunkBytes / 16); i += kThreads) {
    copy_16(shared + kChunksAt + 16 * i, chunks + 16ll * i);
  }
  constexpr int kUnused = kHasOverflow ? 2 * kWarps : 0;  // of what is streamed
  const int* const tables = a.tables + blockIdx.x * (kOverflowInts + kUnused + kTableInts);
#pragma unroll 1
  for (int i = thread; i < kOverflowInts + kTableInts; i += kThreads) {
    const bool is_row = i >= kOverflowInts;
    store_shared_int(shared + (is_row ? kRowsAt - 4 * kOverflowInts : kOverflowAt) + 4 * i,
                     tables[is_row ? i + kUnused : i]);
  }
  end_copies();
  wait_for_copies<0>();
}

template <typename Body>
__device__ __forceinline__ void for_items(int thread, const Body& body) {
#pragma unroll
  for (int i = 0; i < kThreadItems; ++i) {
    const int index = thread + i * kItemThreads;
    if (thread < kItemThreads && index < kItems) {
      body(i, index);
    }
  }
}

extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(kThreads, 1) recurrence(const Arguments a) {
  const u32 shared = shared_base();
  const u32 kept_shared = kept(shared);
  const int thread = kept(threadIdx.x);
#pragma unroll 1
  for (int i = thread; i < kPartialsAt / 16; i += kThreads) {
    store_shared(kept_shared + 16 * i, {0, 0, 0, 0});
  }
  Weights weights{};
  load_weights(a, weights, kept_shared, thread);
  __syncthreads();

  Item items[kThreadItems];
  Constants constants{};
  Fetched fetched[kThreadItems];
  const Received received{kept_shared + kReceivedAt, kept_shared + kBarriersAt};
  if constexpr (kSplit > 1) {
    begin_receiving(received, thread);
  }
  const int sub_batch = a.sub_batch;
  for_items(thread, [&](int i, int index) {
    items[i] = item_of(a, kept_shared + kCarryAt - sub_batch * (kThreadItems * kThreads * 4), index);
    if (i == 0) {
      constants = begin_cell(a, items[0]);
    }
    begin_sub_batch(a, items[i], sub_batch);
  });
  __syncthreads();
  emit_outbox(a, kept_shared, 0, thread);

  const char* const columns = a.ring + static_cast<int>(blockIdx.x) % kSplit * (16 * kStateWords);
  const int lane = thread % 32 / (32 / kSpread) * kNeighbours + thread % kNeighbours;
  const int group = thread / 32 * (32 / kLanesPerRow) + thread % (32 / kSpread) / kNeighbours;
  const Step step_of_lane{shared, kept_shared, 0, 0, thread, lane, group};
  const u32 partials = kept_shared + kPartialsAt;
  int polls = kPolls;
  const long long steps = a.steps + (kIsBackward ? 1 : 0);

#pragma unroll 1
  for (long long step = 0; step < steps; ++step) {
    const char* const state = columns + static_cast<int>(step % kRingSlots) * kRingStride;
    stage_first(state, kept_shared, kept(thread), polls);
    ask_next(state, kept_shared, kept(thread));
    if ((step & (kAhead / 2 - 1)) == 0) {
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
      renew_polls(a.status, polls);
    }
    __syncthreads();
    for_items(thread, [&](int i, int) { fetched[i] = fetch(a, items[i], step, sub_batch); });
    multiply(weights, step_of_lane, state, polls);
    __syncthreads();
    const int count = static_cast<int>(step & 0x7fffffff);
    if constexpr (kSplit > 1) {
      for_items(thread, [&](int, int index) { send_sums(received, SumOfBlock{}, partial_of(partials, index), count, index); });
      if (thread / 32 * 32 < kItems) {
        await_sums(received, count, thread, polls);
      }
    }
    for_items(thread, [&](int i, int index) {
      float sums_of_item[kThreadRows];
      add_up(received, SumOfBlock{}, partial_of(partials, index), count, index, sums_of_item);
      finish(a, items[i], constants, fetched[i], sums_of_item, step, sub_batch);
    });
    __syncthreads();
    emit_outbox(a, kept_shared, step + 1, thread);
    wait_before_polling();
  }
  if (polls <= 0) {
    *a.status = 1;
  }
  if (thread < kItemThreads && thread < kItems) {
    end_cell(a, items[0], constants);
  }
  if constexpr (kSplit > 1) {
    wait_for_cluster();  // no SM leaves while another may store into its shared memory
  }
}
