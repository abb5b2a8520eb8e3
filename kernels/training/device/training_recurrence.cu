// SPDX-License-Identifier: Apache-2.0
// The recurrences of a training step of an LSTM or a GRU (ONCHIP_CELL), forward and backward (ONCHIP_BACKWARD), each in
// one cooperative launch: weights stay in registers and shared memory, and the SMs exchange the state through L2 by
// Lamport words.
//
//   one step of one sub-batch of one SM
//   +--------------------------------------------------------+
//   | poll, multiply   each warp: its share of the columns, as they come  dense/multiply.cuh
//   | add up           the warps' sums in shared memory, after one block barrier; those of a cluster
//   | finish           a thread: one unit of each of its samples          forward.cuh, backward.cuh
//   | publish          to the ring; then to where the products read it
//   +--------------------------------------------------------+
//
// The ring has kRingSlots states. Whoever publishes a state empties its own words kAhead states later: everybody has read
// what was there, and two fences by every thread lie between that and the next state there, so that who polls never
// takes the old for the new.

#include "kernels/training/device/shape.cuh"  // first: what the others are made for

#include "kernels/dense/multiply.cuh"
#include "kernels/dense/partials.cuh"
#include "kernels/persistent/memory.cuh"
#include "kernels/persistent/protocol.cuh"
#include "kernels/persistent/ranks.cuh"
#include "kernels/training/device/item.cuh"
#include "kernels/training/device/prepare.cuh"
#include "kernels/training/device/publish.cuh"
#include "kernels/training/device/split.cuh"
#include "kernels/training/device/stack.cuh"
#if ONCHIP_BACKWARD
#include "kernels/training/device/backward.cuh"
#else
#include "kernels/training/device/forward.cuh"
#include "kernels/training/device/recompute.cuh"
#endif

constexpr int kPartialsAt = kSharedWeightBytes;  // of two sub-batches of each warp group
constexpr int kCarryAt = kPartialsAt + 2 * kWarpGroups * kWarps * kPartialBytes;
constexpr int kReceivedAt = kCarryAt + kSubBatches * kThreadItems * kThreads * 4;
constexpr int kBarriersAt = kReceivedAt + kWarpGroups * kReceivedBytes;
static_assert(ONCHIP_SHARED_BYTES == kBarriersAt + 16 * kWarpGroups,
              "the plan and the kernel count the same shared memory");

__device__ __forceinline__ void wait_for_warp_group() {
  if constexpr (kWarpGroups == 1) {
    __syncthreads();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + warp_group()), "n"(kThreads) : "memory");
  }
}

__device__ __forceinline__ void load_weights(const Arguments& a, Weights& weights, u32 shared, int thread) {
  const int warp = thread / 32, lane = thread % 32;
  const Word* const packed = reinterpret_cast<const Word*>(a.packed) + sm_of_group() * (kWarps * kTiles * 32);
  load_registers(weights, packed, warp, lane);
  const char* const of_shared = reinterpret_cast<const char*>(packed + kWarps * kRegisterTiles * 32);
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kSharedWeightBytes / 16; i += kThreads * kWarpGroups) {
    copy_16(shared + 16 * i, of_shared + 16ll * i);
  }
  end_copies();
  wait_for_copies<0>();
  weights.shared = shared + (warp * kSharedTiles * 32 + lane) * 16;
  weights.zero = static_cast<u32>(a.steps >> 63);
}

// Item i of a thread; of threads beyond kItemThreads one that there is not.
__device__ __forceinline__ int item_index(int thread, int i) {
  int index = thread + i * kItemThreads;
  if constexpr (kItemThreads < kThreads) {
    const int spare = kThreadItems * kItemThreads + i * (kThreads - kItemThreads) + thread - kItemThreads;
    index = thread < kItemThreads ? index : spare;
  }
  return index;
}
// Where its sums are; of one that there is not, others' sums.
__device__ __forceinline__ u32 sums_of(u32 partials, int index) {
  return partial_of(partials, (kItemThreads < kThreads || kInterleaved) && index >= kItems ? 0 : index);
}

// Of items that all lanes of this warp finish, or come along with; interleaved ones without a branch.
template <typename Body>
__device__ __forceinline__ void for_items(int thread, const Body& body) {
#pragma unroll
  for (int i = 0; i < kThreadItems; ++i) {
    if (kInterleaved || thread / 32 * 32 + i * kItemThreads < kItems) {
      body(i, item_index(thread, i));
    }
  }
}

// Samples of a sub-batch end one after another, too: in how many tiles of 8 samples this lane's is left.
__device__ __forceinline__ int tiles_left(const Arguments& a, long long step, int sub_batch, int lane) {
  int tiles = 0;
#pragma unroll
  for (int tile = 0; tile < kSampleTiles; ++tile) {
    tiles += is_left(a, step, sub_batch, 8 * tile + lane / 4) ? 1 : 0;
  }
  return tiles;
}

extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(kThreads * kWarpGroups, 1) recurrence(const Arguments given) {
  const Arguments& a = of_layer(given);
  const u32 shared = static_cast<u32>(__cvta_generic_to_shared(shared_memory));
  const int thread = kept(kWarpGroups == 1 ? threadIdx.x : threadIdx.x % kThreads);  // of the warp group
  const int warp = thread / 32, lane = thread % 32;
  Weights weights{};
  load_weights(a, weights, shared, thread);

  Item items[kThreadItems];
  Constants constants{};
  Fetched fetched[kThreadItems];
  const Received received{shared + kReceivedAt + warp_group() * kReceivedBytes, shared + kBarriersAt + warp_group() * 16};
  if constexpr (kSplit > 1) {
    begin_receiving(received, thread);
  }
  for_items(thread, [&](int i, int index) {
    items[i] = item_of(a, shared + kCarryAt, index);
    if (i == 0) {
      constants = begin_cell(a, items[0]);
    }
#pragma unroll 1
    for (int sub_batch = warp_group(); sub_batch < kSubBatches; sub_batch += kWarpGroups) {
      begin_sub_batch(a, items[i], sub_batch);
    }
    fetched[i] = fetch(a, items[i], 0, warp_group());
  });
  __syncthreads();

  const int source_warp = kSources == 1 ? warp : warp % kSourceWarps;
  const u32 place = source_warp * kWarpSpans * kSpanBytes + 16 * lane;
  // The layer below has computed the state of this step when the own one is that of the step before.
  const int later = is_of_below(warp) ? 1 : 0;
  const char* const first_state = a.ring - later * kRingBytes + batch_group() * (kSubBatches * kStateStride) +
                                  sm_of_group() % kSplit * (kStateSpans * kSpanBytes) + place;
  const int spans = min(kStateSpans - source_warp * kWarpSpans, kWarpSpans);
  Source source{first_state, place, kStateSpans == kSourceWarps * kWarpSpans ? kWarpSpans : spans,
                kGroupBatch % 8 == 0 ? kSampleTiles : (kGroupBatch - lane / 4 + 7) / 8};
  int polls = kPolls;
  int count = 0;  // of sub-batches
  const long long steps = a.steps + (kIsBackward ? 1 : 0);
  int sub_batches = kSubBatches;

  source.state += warp_group() * kStateStride + later * kRingStride;
  if constexpr (kHasLengths) {
    source.samples = tiles_left(a, 0, warp_group(), lane);
  }
  Asked asked{};
  ask(asked, source);

#pragma unroll 1
  for (long long step = 0; step < steps; ++step) {
    if constexpr (kHasLengths) {
      sub_batches = sub_batches_left(a, step, sub_batches);
      if (sub_batches <= warp_group()) {
        break;
      }
    }
#pragma unroll 1
    for (int sub_batch = warp_group(); sub_batch < (kHasLengths ? sub_batches : kSubBatches);
         sub_batch += kWarpGroups) {
      Sums sums{};
      multiply_asked(weights, source, asked, polls, sums);
      if (sub_batch < kWarpGroups && (step & (kAhead / 2 - 1)) == 0) {
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        renew_polls(a.status, polls);
        keep_pace(a, static_cast<u32>(step), thread, polls);
      }
      const bool is_last = sub_batch + kWarpGroups >= (kHasLengths ? sub_batches : kSubBatches);
      const long long next_step = step + (is_last ? 1 : 0);
      const int next_sub_batch = is_last ? warp_group() : sub_batch + kWarpGroups;
      source.state =
          first_state + static_cast<int>((next_step + later) % kRingSlots) * kRingStride + next_sub_batch * kStateStride;
      if constexpr (kHasLengths) {
        source.samples = tiles_left(a, next_step, next_sub_batch, lane);
      }
      // Of the only sub-batch that is left, nobody has published yet.
      const bool is_alone = kSubBatches == kWarpGroups || (kHasLengths && is_last && sub_batch == warp_group());
      if (!is_alone) {
        ask(asked, source);  // it comes while this sub-batch is finished
      }
      const u32 partials = shared + kPartialsAt + (2 * warp_group() + (count & 1)) * (kWarps * kPartialBytes);
      store_partials(partials + warp * kPartialBytes, sums, lane);
      wait_for_warp_group();
      if constexpr (kSplit > 1) {
        for_items(thread, [&](int, int index) { send_sums(received, SumOfWarps{}, partial_of(partials, index), count, index); });
        if (warp * 32 < kItems) {
          await_sums(received, count, thread, polls);
        }
      }
      const auto add_up_item = [&](int index, float(&sums_of_item)[kThreadRows]) {
        add_up(received, SumOfWarps{}, sums_of(partials, index), count, index, sums_of_item);
      };
#if ONCHIP_INTERLEAVED
      finish_all(a, items, constants, fetched,
                 [&](int i, float(&sums_of_item)[kThreadRows]) { add_up_item(item_index(thread, i), sums_of_item); },
                 step, sub_batch);
#endif
      for_items(thread, [&](int i, int index) {
        if constexpr (!kInterleaved) {
          float sums_of_item[kThreadRows];
          add_up_item(index, sums_of_item);
          finish(a, items[i], constants, fetched[i], sums_of_item, step, sub_batch);
        }
        fetched[i] = fetch(a, items[i], next_step, next_sub_batch);
      });
      ++count;
      if (is_alone) {
        wait_before_polling();
        ask(asked, source);
      }
    }
  }
  if (polls <= 0) {
    *a.status = 1;
  }
  if (warp * 32 < kItems) {
    end_cell(a, items[0], constants);
  }
  if constexpr (kSplit > 1) {
    wait_for_cluster();  // no SM leaves while another may store into its shared memory
  }
}
