// SPDX-License-Identifier: Apache-2.0
// What a thread finishes of each turn: one unit of kThreadItems samples, each an item.

constexpr int kThreadItems = (kItems + kItemThreads - 1) / kItemThreads;
constexpr int kSumSamples = kGroupBatch < kThreads / kUnits ? kGroupBatch : kThreads / kUnits;  // sums for biases

struct Item {
  int unit, sample;  // of all units; of a turn's samples
  bool exists;       // it is a unit of the network
  char* ring;        // its words in the ring's first slot and turn
  u32 carry;         // in shared memory, of the first turn: float [kTurns][kThreadItems][kThreads]

  __device__ __forceinline__ int batch_index(int turn) const {
    return (batch_group() * kTurns + turn) * kGroupBatch + sample;
  }
  __device__ __forceinline__ bool is_there(int turn) const { return exists && batch_index(turn) < kBatch; }
  // Of a matrix [kBatch][kHidden]; of step t's, if there is one for each step.
  __device__ __forceinline__ long long state_index(long long t, int turn) const {
    return (t * kBatch + batch_index(turn)) * kHidden + unit;
  }
  __device__ __forceinline__ long long gate_index(long long t, int turn, int gate) const {
    return ((t * kBatch + batch_index(turn)) * 4 + gate) * kHidden + unit;
  }
  __device__ __forceinline__ char* words(long long state, int turn) const {
    return ring + static_cast<int>(state % kRingSlots) * kRingStride + turn * kStateStride;
  }
  __device__ __forceinline__ u32 carry_of(int turn) const { return carry + turn * (kThreadItems * kThreads * 4); }
};

__device__ __forceinline__ Item item_of(const Arguments& a, u32 carry, int index) {
  Item item;
  item.unit = sm_of_group() * kUnits + index % kUnits;
  item.sample = index / kUnits;
  item.exists = item.unit < kHidden && item.sample < kGroupBatch;
  item.carry = carry + 4 * index;
  const int even = kUnitValues > 1 ? item.unit : item.unit - item.unit % 2;  // else a word is of two units
  item.ring = a.ring + batch_group() * (kTurns * kStateStride) + place_of(even, item.sample);
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
