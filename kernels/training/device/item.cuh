// SPDX-License-Identifier: Apache-2.0
// What a thread finishes of each sub-batch: one unit of kThreadItems samples, each an item.
#pragma once

#include "kernels/persistent/elements.cuh"
#include "kernels/persistent/protocol.cuh"
#include "kernels/training/device/arguments.hpp"

constexpr int kFetchedAhead = 4;  // steps; what DRAM has comes to L2
constexpr int kSectorUnits = 16;  // of a row, in a sector
constexpr int kThreadItems = (kItems + kItemThreads - 1) / kItemThreads;
constexpr int kSumSamples = kGroupBatch < kThreads / kUnits ? kGroupBatch : kThreads / kUnits;  // sums for biases

// Groups share the longest samples, so that the last sub-batches of all end early.
__device__ __forceinline__ int first_sample(const Arguments& a) {
  return kLaunches > 1 ? a.first_sample : 0;
}
__device__ __forceinline__ int rank_of(const Arguments& a, int sub_batch, int sample) {
  return first_sample(a) + (sub_batch * kGroupBatch + sample) * kBatchGroups + batch_group();
}

// The first packed row of each position; behind the last, all.
__device__ __forceinline__ int* offsets(const Arguments& a) {
  return reinterpret_cast<int*>(a.ranks + a.batch);
}

// A sample in a step.
struct Place {
  int row, output_row;
  int rest;  // of its steps, this one counted; below 1: it is not there
};

struct Item {
  int unit, sample;  // of all units; of a sub-batch's samples
  bool exists;       // it is a unit of the network
  char* ring;        // its words in the ring's first slot and sub-batch
  u32 carry;         // in shared memory, of the first sub-batch: float [kSubBatches][kThreadItems][kThreads]

  // The only place that knows directions and lengths.
  __device__ __forceinline__ Place place(const Arguments& a, long long step, int sub_batch) const {
    const int rank = rank_of(a, sub_batch, sample);
    const bool is_sample = exists && rank < a.batch;
    Place place{0, 0, -1};
    if constexpr (kHasLengths) {  // without branches, so that loads of several places are on their way at once
      const onchip::Ranked ranked = a.ranks[is_sample ? rank : 0];
      place.rest = is_sample ? ranked.length - static_cast<int>(step) : -1;
      const int position = max(0, a.descends ? place.rest - 1 : min(static_cast<int>(step), ranked.length));
      place.row = offsets(a)[position] + rank;
      place.output_row = a.packed_rows > 0 ? place.row : position * a.batch + ranked.sample;
    } else if (is_sample) {
      place.rest = static_cast<int>(a.steps) - static_cast<int>(step);
      place.row = (a.descends ? place.rest - 1 : static_cast<int>(step)) * a.batch + rank;
      place.output_row = place.row;
    }
    return place;
  }
  // With lengths, for place_later().
  __device__ __forceinline__ Place found_later(const Arguments& a, long long step, int sub_batch) const {
    return kHasLengths ? place(a, step, sub_batch) : Place{};
  }
  // The caller's, of a sample that is there.
  __device__ __forceinline__ int caller_sample(const Arguments& a, int sub_batch) const {
    const int rank = rank_of(a, sub_batch, sample);
    return kHasLengths ? a.ranks[rank].sample : rank;
  }
  // Of rows of kHidden, also of those of samples; of the output; of the gates.
  __device__ __forceinline__ long long index(int row) const { return static_cast<long long>(row) * kHidden + unit; }
  __device__ __forceinline__ long long output_index(int row) const {
    return static_cast<long long>(row) * kOutputStride + unit;
  }
  __device__ __forceinline__ long long gate_index(int row, int gate) const {
    return (static_cast<long long>(row) * 4 + gate) * kGateColumns + unit;
  }
  __device__ __forceinline__ char* words(long long state, int sub_batch) const {
    return ring + static_cast<int>(state % kRingSlots) * kRingStride + sub_batch * kStateStride;
  }
  __device__ __forceinline__ u32 carry_of(int sub_batch) const {
    return carry + sub_batch * (kThreadItems * kThreads * 4);
  }
};

// So many steps after `place`.
__device__ __forceinline__ Place place_later(const Arguments& a, const Place& place, const Place& found, int steps) {
  const int row = place.row + (a.descends ? -steps : steps) * a.batch;
  return kHasLengths ? found : Place{row, row, place.rest - steps};
}

// Whether a sample's state is multiplied in this step; backward also that which leaves the first state's gradient.
__device__ __forceinline__ bool is_left(const Arguments& a, long long step, int sub_batch, int sample) {
  const int rank = rank_of(a, sub_batch, sample);
  return sample < kGroupBatch && rank < a.batch && step < a.ranks[rank].length + (kIsBackward ? 1 : 0);
}

// Sub-batches end one after another: how many of `sub_batches` have samples in this step.
__device__ __forceinline__ int sub_batches_left(const Arguments& a, long long step, int sub_batches) {
#pragma unroll 1
  while (sub_batches > 0 && !is_left(a, step, sub_batches - 1, 0)) {
    --sub_batches;
  }
  return sub_batches;
}

__device__ __forceinline__ Item item_of(const Arguments& a, u32 carry, int index) {
  Item item;
  item.unit = sm_of_group() * kUnits + index % kUnits;
  item.sample = index / kUnits;
  item.exists = item.unit < kHidden && item.sample < kGroupBatch;
  item.carry = carry + 4 * index;
  const int even = kUnitValues > 1 ? item.unit : item.unit - item.unit % 2;  // else a word is of two units
  item.ring = a.ring + batch_group() * (kSubBatches * kStateStride) + place_of(even, item.sample);
  return item;
}

// Elements that the kernel itself writes, too; volatile, so that they are asked for here and not where they are used.
__device__ __forceinline__ u16 load_ahead(const void* base, long long index) {
  u16 bits;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(bits) : "l"(static_cast<const u16*>(base) + index) : "memory");
  return bits;
}
__device__ __forceinline__ void prefetch(const void* base, long long index) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const u16*>(base) + index) : "memory");
}
__device__ __forceinline__ float to_float(u32 bits) {
  return element(&bits, 0);
}
__device__ __forceinline__ float load_or_zero(const void* base, long long index) {
  return base == nullptr ? 0.0f : to_float(load_element(base, index));
}
__device__ __forceinline__ void store_if_wanted(void* base, long long index, u32 bits) {
  if (base != nullptr) {
    store_element(base, index, bits);
  }
}
