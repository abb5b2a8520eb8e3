// SPDX-License-Identifier: Apache-2.0
// From the warps' sums to the next state of the SM's units.
//
// Rows g and g + 8 of a tile of W are rows 2 i and 2 i + 1 of the SM, i = 8 * tile + g, so that a lane's four sums of a
// tile are two neighbouring rows of two samples. Row r is gate r % kGates of the SM's unit r / kGates: a thread that
// finishes a unit finds its gates side by side.
//
//   partial   float [kWarps][8 * kSampleTiles][kPartialRows] in shared memory; kPartialRows leaves a gap that makes the
//             lanes' 8-byte stores free of bank conflicts, and the threads' loads of LSTMs; those of rows of several
//             samples in other cells take two wavefronts
#pragma once

#include "kernels/dense/multiply.cuh"
#include "kernels/dense/partials.cuh"
#include "kernels/dense/shape.cuh"
#include "kernels/persistent/activation.cuh"
#include "kernels/persistent/launch.cuh"

// A thread finishes an item: for one sample, two units of a cell without gates, or one unit of a gated cell; then the two
// units of a pair are in neighbouring lanes. Neighbouring items are neighbours in the state, too, so that the words that a
// warp stores at once lie together. What it must know of its items lies in shared memory, for registers
// are for weights, and is laid down once:
//
//   item    [kItems], see below
//   input   [2][kItems][kItemInput], this step's and the next's, which the thread copies for itself
//   carry   float [kItems], LSTM: c, GRU: h
//   bias    float [kItems], GRU
constexpr int kPairs = kUnitsPerSm / 2;
constexpr int kItems = kGates == 1 ? kPairs * kGroupBatch : (kPairs * kGroupBatch + 15) / 16 * 32;
constexpr int kItemInput = kGates == 1 ? 4 : 8;  // bytes
static_assert(kUnitsPerSm % 2 == 0, "a word of the state is two units of one SM");

// Where they are in shared memory, from the model's map (DenseRegion of model/dense/geometry.hpp).
constexpr int kPartialsAt = ONCHIP_AT_PARTIALS;
constexpr int kItemsAt = ONCHIP_AT_ITEMS;
constexpr int kInputAt = ONCHIP_AT_INPUT;
constexpr int kCarryAt = ONCHIP_AT_CARRY;
constexpr int kBiasAt = ONCHIP_AT_BIAS;
static_assert(kItemsAt - kPartialsAt == kWarps * kPartialBytes &&
                  kInputAt - kItemsAt == 16 * kItems &&
                  kCarryAt - kInputAt == 2 * kItemInput * kItems,
              "the plan and the kernel count the same items");

struct Item {
  u32 partials;  // address of its rows in the first warp's sums
  u32 place;     // of its word in a state, in bytes, with the flags below: words lie at multiples of 4
  u32 input;     // place of its input in that of a step, in bytes
  int last;      // the sample's last step in this launch, if that is in this launch
};
constexpr u32 kFirstIsNone = 1, kSecondIsNone = 2;  // a place beyond the last unit: stays zero
constexpr u32 kWritesNothing = 2;                   // gated: the upper unit of a pair, or no item at all

// This SM among those of its batch group, and the batch group.
__device__ __forceinline__ int sm_of_group() { return static_cast<int>(blockIdx.x) % kBlocks; }
__device__ __forceinline__ int batch_group() { return kBatchGroups == 1 ? 0 : static_cast<int>(blockIdx.x) / kBlocks; }

// Of the SM, of its batch group.
struct UnitSample {
  int unit, sample;
  bool exists;
};
__device__ __forceinline__ UnitSample of_item(int i) {
  const int pair = kGates == 1 ? i : i / 2;
  const bool exists = kGates == 1 || pair < kPairs * kGroupBatch;
  const int place = exists ? pair : 0;  // who finishes nothing reads what is there
  // The pairs of one span after another, sample by sample; the first and the last span may be of several SMs.
  constexpr int kSpanPairs = kSpanUnits / 2;
  const int before = sm_of_group() * (kUnitsPerSm / 2) % kSpanPairs;  // other SMs' in the first span
  const int in_first = min(kSpanPairs - before, kPairs);
  const bool is_first = place < in_first * kGroupBatch;
  const int beyond = place - in_first * kGroupBatch;
  const int span = is_first ? 0 : beyond / (kSpanPairs * kGroupBatch);  // of those after the first
  const int pairs = is_first ? in_first : min(kSpanPairs, kPairs - in_first - kSpanPairs * span);
  const int in_span = is_first ? place : beyond - kSpanPairs * kGroupBatch * span;
  const int pair_of_sm = (is_first ? 0 : in_first + kSpanPairs * span) + in_span % pairs;
  return {pair_of_sm * 2 + (kGates == 1 ? 0 : i % 2), in_span / pairs, exists};
}
// Of a carry in that of the launch.
__device__ __forceinline__ long long carry_index(const UnitSample& of) {
  return (static_cast<long long>(sm_of_group()) * kUnitsPerSm + of.unit) * kBatchPadded + batch_group() * kGroupBatch + of.sample;
}

__device__ __forceinline__ void lay_items(const Arguments& a, u32 shared, u32 partials, int thread) {
#pragma unroll 1
  for (int i = thread; i < kItems; i += kThreads) {
    const UnitSample of = of_item(i);
    const int unit = sm_of_group() * kUnitsPerSm + of.unit;
    u32 place = in_l2(kElementBytes * index_in_group(unit - of.unit % 2, of.sample));
    // Weights beyond the last unit are zero, but zero times infinity is not.
    place |= unit >= kHidden ? kFirstIsNone : 0;
    if constexpr (kGates == 1) {
      place |= unit + 1 >= kHidden ? kSecondIsNone : 0;
    } else {
      place |= of.exists && of.unit % 2 == 0 ? 0 : kWritesNothing;
    }
    const u32 input = kElementBytes * kGates * (of.sample * kStateUnits + unit);
    int last = -1;
    if constexpr (kCarries) {
      last = of.exists ? a.lengths[batch_group() * kGroupBatch + of.sample] - a.first_step - 1 : -1;
      store_shared_float(shared + kCarryAt + 4 * i, a.carry[carry_index(of)]);
    }
    if constexpr (kCell == kGru) {
      store_shared_float(shared + kBiasAt + 4 * i, a.recurrent_bias[unit]);
    }
    store_shared(shared + kItemsAt + 16 * i,
                 {partials + 4 * (of.sample * kPartialRows + of.unit * kGates), place, input & ~3u, static_cast<u32>(last)});
  }
}

// Asks for the input of step t of this launch, for one of two places in shared memory.
__device__ __forceinline__ void fetch_items(const Arguments& a, int t, u32 shared, int thread) {
  if (t < a.steps) {
    constexpr int kStepBytes = kBatch * kStateUnits * kGates * kElementBytes;
    const char* const step = static_cast<const char*>(a.input) + static_cast<long long>(t) * kStepBytes +
                             batch_group() * (kStepBytes / kBatchGroups);
    const u32 to = shared + kInputAt + t % 2 * (kItemInput * kItems);
#pragma unroll 1
    for (int i = thread; i < kItems; i += kThreads) {
      const char* const from = step + load_shared_int(shared + kItemsAt + 16 * i + 8);
      if constexpr (kItemInput == 4) {
        copy_4(to + 4 * i, from);
      } else if constexpr (kCell == kLstm) {
        copy_8(to + 8 * i, from);
      } else {  // three gates in two words, the odd unit's from their middle
        copy_4(to + 8 * i, from);
        copy_4(to + 8 * i + 4, from + 4);
      }
    }
  }
  end_copies();
}

__device__ __forceinline__ void return_carries(const Arguments& a, u32 shared, int thread) {
#pragma unroll 1
  for (int i = thread; i < kItems; i += kThreads) {
    const UnitSample of = of_item(i);
    if (of.exists) {
      a.carry[carry_index(of)] = load_shared_float(shared + kCarryAt + 4 * i);
    }
  }
}

// All that an item needs beside the sums: fetched before the block's barrier, so that nothing waits for it after that.
struct Prepared {
  Item item;
  u32 input[kItemInput / 4];
  float carry, bias;
};

__device__ __forceinline__ Prepared prepare(u32 shared, int i, int t) {
  const Word item = load_shared(shared + kItemsAt + 16 * i);
  Prepared p{{item.x, item.y, item.z, static_cast<int>(item.w)}, {}, 0, 0};
  const u32 input = shared + kInputAt + t % 2 * (kItemInput * kItems) + kItemInput * i;
  if constexpr (kItemInput == 4) {
    p.input[0] = load_shared_int(input);
  } else {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(p.input[0]), "=r"(p.input[1]) : "r"(input) : "memory");
  }
  if constexpr (kCarries) {
    p.carry = load_shared_float(shared + kCarryAt + 4 * i);
  }
  if constexpr (kCell == kGru) {
    p.bias = load_shared_float(shared + kBiasAt + 4 * i);
    const u32 odd = i % 2 * 16;  // bits
    p.input[0] = __funnelshift_r(p.input[0], p.input[1], odd);
    p.input[1] >>= odd;
  }
  return p;
}

// The gates of one unit; `carry` becomes the next one. Returns the next state.
__device__ __forceinline__ float apply_cell(const float (&sum)[kGates], const float (&x)[kGates], float bias, float& carry) {
  if constexpr (kCell == kRelu) {
    const float h = sum[0] + x[0];
    return h < 0.0f ? 0.0f : h;  // keeps NaN, as frameworks do
  } else if constexpr (kCell == kTanh) {
    return squash(sum[0] + x[0], true);
  } else if constexpr (kCell == kLstm) {  // gates i, f, g, o
    const float added = squash(sum[0] + x[0], false) * squash(sum[2] + x[2], true);
    carry = fmaf(squash(sum[1] + x[1], false), carry, added);
    return squash(sum[3] + x[3], false) * squash(carry, true);
  } else {  // gates r, z, n; the reset gate multiplies the product with its bias
    const float reset = squash(sum[0] + x[0], false);
    const float update = squash(sum[1] + x[1], false);
    const float candidate = squash(fmaf(reset, sum[2] + bias, x[2]), true);
    carry = fmaf(update, carry - candidate, candidate);
    return carry;
  }
}
