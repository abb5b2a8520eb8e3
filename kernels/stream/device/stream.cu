// SPDX-License-Identifier: Apache-2.0
// Streams: a kernel that stays and does a step of a stack of LSTMs or GRUs for each request, all weights in registers.
//
//   host      writes an input into a slot of its mailbox, and polls the slot of the answer
//   mailbox   one block of each stream polls the host's slot and copies it to L2; it decides when the kernel ends
//   layer     kLayerBlocks blocks, each kTiles * 4 units: input warps poll the layer below, state warps the state of the
//             step before, which is there earlier; then sums, the cell, and the next state to L2; the last layer's to
//             the host, too
//
// All that is waited for says itself which step it is of (arguments.hpp). A slot is written again kSlots steps later:
// the host has the answer of a step before it asks for that one, so that whoever reads the slot has done so.
#include "kernels/persistent/types.cuh"
#include "kernels/stream/device/arguments.hpp"

constexpr Precision kPrecision = static_cast<Precision>(ONCHIP_PRECISION);
constexpr Cell kCell = static_cast<Cell>(ONCHIP_CELL);
constexpr int kInput = ONCHIP_INPUT, kHidden = ONCHIP_HIDDEN, kBatch = ONCHIP_BATCH, kLayers = ONCHIP_LAYERS;

#include "kernels/training/device/step.cuh"

using onchip::StreamArguments;
using onchip::StreamControl;
using onchip::StreamLayer;

constexpr int kSlots = ONCHIP_SLOTS;
constexpr u32 kPollDelay = ONCHIP_POLL_DELAY;
constexpr int kTiles = ONCHIP_TILES;          // of a block: 16 rows of sums, 4 units
constexpr int kSpans = ONCHIP_SPANS;          // of a warp: 16 columns
constexpr int kInputWarps = ONCHIP_INPUT_WARPS, kStateWarps = ONCHIP_STATE_WARPS, kWarps = kInputWarps + kStateWarps;
constexpr int kThreads = 32 * kWarps;
constexpr int kUnits = kTiles * kTileUnits, kRows = kTiles * kTileRows;
constexpr int kLayerBlocks = (kHidden + kUnits - 1) / kUnits, kStreamBlocks = 1 + kLayers * kLayerBlocks;
constexpr int kSamples = kBatch <= 2 ? kBatch : kBatch <= 4 ? 4 : 8;  // a power of two
constexpr int kSpanItems = 4 * kSamples, kItemLoads = (kSpans * kSpanItems + 31) / 32;
constexpr int kInputItems = (kInput + 3) / 4 * kSamples, kStateItems = (kHidden + 3) / 4 * kSamples;
constexpr int kPollsBetween = 64;  // looks at whether the stream ends
constexpr unsigned kAll = 0xffffffffu;
static_assert(kBatch <= 8, "columns of an mma");

__device__ __forceinline__ Word load_item(const u32* at) {
  Word v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at)
               : "memory");
  return v;
}
__device__ __forceinline__ Word load_request(const u32* at) {
  Word v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at)
               : "memory");
  return v;
}
__device__ __forceinline__ u32 load_word(const u32* at) {
  u32 v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
__device__ __forceinline__ void store_word(u32* at, u32 v) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory");
}
__device__ __forceinline__ void store_to_host(u32* at, u32 v) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory");
}
__device__ __forceinline__ unsigned long long now_ns() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}

__device__ __forceinline__ bool is_of(const Word& v, u32 step) {
  const u32 tag = step << 16;
  return (((v.x ^ tag) | (v.y ^ tag) | (v.z ^ tag) | (v.w ^ tag)) & onchip::kStepMask) == 0;
}

__device__ __forceinline__ u32 read_clock() {
  u32 now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
  return now;
}

// ---- the mailbox ----------------------------------------------------------------------------------------------------

// Until the stream ends: looks at the host's control now and then. `received`: the last step that came.
__device__ __forceinline__ void watch(const StreamArguments& a, int stream, const volatile u32* received) {
  u32 beat = load_word(&a.control[stream].beat), step = *received;
  unsigned long long last_beat = now_ns();
  a.seen[stream] = last_beat;
  while (true) {
    asm volatile("nanosleep.u32 2000;" ::: "memory");
    const unsigned long long now = now_ns();
    if (const u32 next = load_word(&a.control[stream].beat); next != beat) {
      beat = next;
      last_beat = now;
    }
    volatile unsigned long long* const seen = a.seen;
    if (*received != step) {
      step = *received;
      seen[stream] = now;
    }
    bool is_idle = true;
    for (int i = 0; i < static_cast<int>(gridDim.x) / kStreamBlocks; ++i) {
      const unsigned long long last = seen[i];
      is_idle = is_idle && last != 0 && now > last && now - last > a.idle_ns;
    }
    if (is_idle || now - last_beat > a.beat_ns || load_word(&a.control[stream].closes) != 0) {
      store_word(a.parks, 1);
    }
    if (load_word(a.parks) != 0) {
      return;
    }
  }
}

// A host that has not asked yet asks when it has the answer before. A read of its memory that begins too early is in the way
// of the one that finds the request: so reads begin again kPollDelay cycles after the answer is written.
__device__ __forceinline__ void await_answer(const StreamArguments& a, int stream, u32 step, int thread) {
  constexpr u32 kMostCycles = 1 << 15;
  const u32* const states = a.states + (static_cast<long long>(stream * kLayers + kLayers - 1) * kSlots + step % kSlots) * kStateItems * 4;
  const u32* const word = states + 4 * (thread % (kStateItems / kSamples)) * kSamples;
  const u32 begin = read_clock();
  while (((load_word(word) ^ step << 16) & onchip::kStepMask) != 0 && read_clock() - begin < kMostCycles) {
  }
  const u32 answered = read_clock();
  while (read_clock() - answered < kPollDelay) {
  }
}

__device__ __forceinline__ void serve_mailbox(const StreamArguments& a, int stream, int thread) {
  __shared__ u32 is_over, end, received;
  if (thread == 0) {
    is_over = 0;
    end = kAll;
    received = a.first[stream] - 1;
  }
  __syncthreads();
  const volatile u32* const ends = &is_over;
  constexpr int kServing = kThreads - 32;
  if (thread == kServing) {
    watch(a, stream, &received);
    *const_cast<volatile u32*>(ends) = 1;
  } else if (thread < min(kServing, kInputItems)) {
    const long long of_stream = static_cast<long long>(stream) * kSlots * kInputItems * 4;
    u32 step = a.first[stream];
    for (bool goes_on = true; goes_on; step += goes_on) {
      const long long slot = of_stream + static_cast<long long>(step % kSlots) * kInputItems * 4;
#pragma unroll 1
      for (int item = thread; item < kInputItems && goes_on; item += kServing) {
        Word v = load_request(a.requests + slot + 4 * item);
        if (!is_of(v, step)) {
          await_answer(a, stream, step - 1, thread);
        }
        while (!is_of(v, step) && goes_on) {  // what is there when the stream ends is still taken
          goes_on = *ends == 0;
          v = load_request(a.requests + slot + 4 * item);
        }
        if (goes_on = is_of(v, step); goes_on) {
          asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(a.inputs + slot + 4 * item), "r"(v.x),
                       "r"(v.y), "r"(v.z), "r"(v.w)
                       : "memory");
        }
      }
      if (thread == 0 && goes_on) {
        *const_cast<volatile u32*>(&received) = step;
      }
    }
    atomicMin(&end, step);
  }
  __syncthreads();
  if (thread == 0) {
    store_word(a.ends + stream, end);
    StreamControl& control = a.control[stream];
    store_to_host(&control.next, end);
    __threadfence_system();
    store_to_host(&control.ended, a.launch);
  }
}

// ---- a layer --------------------------------------------------------------------------------------------------------

struct Weights {
  u32 tiles[kSpans][kTiles][4];
};

// Not from L1, which may have what was there before.
__device__ __forceinline__ u32 load_weight(const u16* rows, int row, int columns, int column) {
  u16 bits = 0;
  if (row >= 0 && column < columns) {
    asm volatile("ld.relaxed.gpu.global.u16 %0, [%1];" : "=h"(bits) : "l"(rows + (row * columns + column)) : "memory");
  }
  return bits;
}

__device__ __forceinline__ void load_weights(Weights& w, const void* rows, int columns, bool is_state, int first_unit,
                                             int first_span, int lane) {
  const auto* const weights = static_cast<const u16*>(rows);
#pragma unroll
  for (int span = 0; span < kSpans; ++span) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // of the operand: rows 8 apart, then columns 2 apart
        const int in_tile = lane / 4 + i % 2 * 8, column = 16 * (first_span + span) + lane % 4 * 4 + i / 2 * 2;
        const int row = weight_row(first_unit + tile * kTileUnits + in_tile / kSums, in_tile % kSums, is_state);
        w.tiles[span][tile][i] = load_weight(weights, row, columns, column) | load_weight(weights, row, columns, column + 1) << 16;
      }
    }
  }
}

// The items of a warp's columns as soon as they are all of the step; of those that are not there, zeros. False: the stream
// ends before.
__device__ __forceinline__ bool await_items(Word (&items)[kItemLoads], const u32* slot, int first_item, int all_items,
                                            u32 step, const u32* ends, u32 next, int lane) {
  for (int polls = 1;; ++polls) {
#pragma unroll
    for (int i = 0; i < kItemLoads; ++i) {
      const int of_warp = lane + 32 * i, item = first_item + of_warp;
      items[i] = {step << 16, step << 16, step << 16, step << 16};
      if (of_warp < kSpans * kSpanItems && item < all_items && item % kSamples < kBatch) {
        items[i] = load_item(slot + 4 * item);
      }
    }
    bool are_there = true;
#pragma unroll
    for (int i = 0; i < kItemLoads; ++i) {
      are_there = are_there && is_of(items[i], step);
    }
    if (__all_sync(kAll, are_there)) {
      return true;
    }
    if (polls % kPollsBetween == 0 && load_word(ends) == next) {
      return false;
    }
  }
}

__device__ __forceinline__ void multiply_items(float (&sums)[kTiles][4], const Weights& w, const Word (&items)[kItemLoads],
                                               int lane) {
  const int sample = min(lane / 4, kSamples - 1), in_span = lane % 4 * kSamples + sample;
  u32 packed[kItemLoads][2];
#pragma unroll
  for (int i = 0; i < kItemLoads; ++i) {
    packed[i][0] = __byte_perm(items[i].x, items[i].y, 0x5410);
    packed[i][1] = __byte_perm(items[i].z, items[i].w, 0x5410);
  }
#pragma unroll
  for (int span = 0; span < kSpans; ++span) {
    constexpr int kSpansOfLoad = 32 / kSpanItems;
    const int from = span % kSpansOfLoad * kSpanItems + in_span;
    const u32 lower = __shfl_sync(kAll, packed[span / kSpansOfLoad][0], from);
    const u32 upper = __shfl_sync(kAll, packed[span / kSpansOfLoad][1], from);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const u32(&of)[4] = w.tiles[span][tile];
      multiply(sums[tile], of[0], of[1], of[2], of[3], lower, upper);
    }
  }
}

// A block's sums of each warp; of two steps, so that one barrier a step is enough.
struct Shared {
  float sums[2][kWarps][kSamples][kRows];
  float biases[kRows];
  float carries[kBatch][kUnits];
  u32 states[kBatch][kUnits];  // bits of h
  u32 commands[2];
  u32 ends;  // 1: a warp knows that there is no step
};

// What a thread does of the cell: a sum of a unit of a sample, and its neighbours the other three.
struct CellItem {
  int sample, row, in_block, unit;
  bool is_there;  // of a block's rows and samples
  u32 *state, *answer;  // where h goes in the first slot; null: nowhere
};
constexpr int kCellItems = (kBatch * kRows + kThreads - 1) / kThreads;  // of a thread

__device__ __forceinline__ void serve_layer(const StreamArguments& a, int stream, int layer, int block, int thread) {
  __shared__ Shared shared;
  const int warp = thread / 32, lane = thread % 32, first_unit = block * kUnits;
  const bool is_state = warp >= kInputWarps;
  const int first_span = kSpans * (is_state ? warp - kInputWarps : warp);
  const StreamLayer& of = a.layers[layer];
  const int columns = !is_state && layer == 0 ? kInput : kHidden, items = !is_state && layer == 0 ? kInputItems : kStateItems;
  u32* const own = a.states + static_cast<long long>(stream * kLayers + layer) * kSlots * kStateItems * 4;
  const u32* const polled = is_state     ? own
                            : layer == 0 ? a.inputs + static_cast<long long>(stream) * kSlots * kInputItems * 4
                                         : own - static_cast<long long>(kSlots) * kStateItems * 4;
  const long long of_layer = static_cast<long long>(stream * kLayers + layer) * kBatch * kHidden;
  CellItem cells[kCellItems];
#pragma unroll
  for (int i = 0; i < kCellItems; ++i) {
    CellItem& cell = cells[i];
    const int index = thread + i * kThreads;
    cell.is_there = index < kBatch * kRows;
    cell.sample = index / kRows;
    cell.row = index % kRows;
    cell.in_block = cell.row / kSums;
    cell.unit = first_unit + cell.in_block;
    const int item = cell.unit / 4 * kSamples + cell.sample;
    cell.state = cell.row % kSums == 0 && item < kStateItems ? own + 4 * item + cell.unit % 4 : nullptr;
    cell.answer = layer == kLayers - 1 && cell.row % kSums == 0 && cell.unit < kHidden
                      ? a.answers + static_cast<long long>(stream) * kSlots * (kBatch * kHidden) + cell.sample * kHidden + cell.unit
                      : nullptr;
  }
  u32 step = a.first[stream];
#pragma unroll 1
  for (int i = thread; i < kBatch * kUnits; i += kThreads) {
    const int sample = i / kUnits, in_block = i % kUnits, unit = first_unit + in_block;
    const int item = unit / 4 * kSamples + sample;
    shared.carries[sample][in_block] = unit < kHidden ? a.carries[of_layer + sample * kHidden + unit] : 0.0f;
    shared.states[sample][in_block] =
        item < kStateItems ? load_word(own + static_cast<long long>((step - 1) % kSlots) * kStateItems * 4 + 4 * item + unit % 4) & 0xffffu : 0;
  }
  shared.ends = 0;
  Weights w;
  __syncthreads();
#pragma unroll 1
  for (bool reloads = true;; ++step) {
    if (reloads) {
      __threadfence_system();
      load_weights(w, is_state ? of.w_hh : of.w_ih, columns, is_state, first_unit, first_span, lane);
#pragma unroll 1
      for (int row = thread; row < kRows; row += kThreads) {
        const int unit = first_unit + row / kSums;
        shared.biases[row] = unit < kHidden ? bias(of.b_ih, of.b_hh, unit, row % kSums) : 0.0f;
      }
    }
    const u32 awaited = is_state ? step - 1 : step, turn = step % 2;
    const int slot = static_cast<int>(step % kSlots);
    const u32 word = (step & ((1u << onchip::kStepBits) - 1)) << 16;
    Word found[kItemLoads];
    const bool goes_on = await_items(found, polled + static_cast<long long>(awaited % kSlots) * items * 4,
                                     first_span * kSpanItems, items, awaited, a.ends + stream, step, lane);
    float sums[kTiles][4] = {};
    multiply_items(sums, w, found, lane);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (const int sample = lane % 4 * 2 + i % 2; sample < kSamples) {
          shared.sums[turn][warp][sample][tile * kTileRows + lane / 4 + i / 2 * 8] = sums[tile][i];
        }
      }
    }
    if (thread == 0) {
      shared.commands[turn] = found[0].x >> (16 + onchip::kStepBits);
    }
    if (!goes_on) {
      shared.ends = 1;
    }
    __syncthreads();
    u32 command = 0, ends = 0;
    const auto load_command = [&] {
      command = shared.commands[turn];
      ends = *const_cast<volatile u32*>(&shared.ends);
    };
#pragma unroll
    for (int i = 0; i < kCellItems; ++i) {
      const CellItem& cell = cells[i];
      if (kCellItems * kThreads > kBatch * kRows && !cell.is_there) {
        load_command();
        continue;
      }
      float part[kWarps];
#pragma unroll
      for (int from = 0; from < kWarps; ++from) {
        part[from] = shared.sums[turn][from][cell.sample][cell.row];
      }
      const float carried = shared.carries[cell.sample][cell.in_block];
      load_command();
      float sum = shared.biases[cell.row];
#pragma unroll
      for (int from = 0; from < kWarps; ++from) {
        sum += part[from];
      }
      const unsigned active = __activemask();  // quarters of a warp
      float all[kSums];
#pragma unroll
      for (int k = 0; k < kSums; ++k) {
        all[k] = __shfl_sync(active, sum, lane / kSums * kSums + k);
      }
      float carry = carried;
      u32 h = to_bits(next_state(all, carry));
      if (cell.state == nullptr || ends != 0) {
        continue;
      }
      h = cell.unit < kHidden ? h : 0;
      if (command != onchip::kStep) {
        const long long index = of_layer + cell.sample * kHidden + cell.unit;
        const bool resets = command == onchip::kReset && cell.unit < kHidden;
        carry = resets ? value(a.initial_cell, index) : carried;
        h = resets ? load_element(a.initial, index) : shared.states[cell.sample][cell.in_block];
      }
      const u32 published = h | word | command << (16 + onchip::kStepBits);
      if (cell.answer != nullptr) {
        store_to_host(cell.answer + slot * (kBatch * kHidden), published);
      }
      store_word(cell.state + slot * (kStateItems * 4), published);
      shared.carries[cell.sample][cell.in_block] = carry;
      shared.states[cell.sample][cell.in_block] = h;
    }
    if (ends != 0) {
      break;
    }
    reloads = command == onchip::kReload;
  }
  __syncthreads();
#pragma unroll 1
  for (int i = thread; i < kBatch * kUnits; i += kThreads) {
    if (const int sample = i / kUnits, unit = first_unit + i % kUnits; unit < kHidden) {
      a.carries[of_layer + sample * kHidden + unit] = shared.carries[sample][i % kUnits];
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) stream(const StreamArguments a) {
  const int stream = static_cast<int>(blockIdx.x) / kStreamBlocks, block = static_cast<int>(blockIdx.x) % kStreamBlocks;
  const int thread = static_cast<int>(threadIdx.x);
  if (block == 0) {
    serve_mailbox(a, stream, thread);
  } else {
    serve_layer(a, stream, (block - 1) / kLayerBlocks, (block - 1) % kLayerBlocks, thread);
  }
}
