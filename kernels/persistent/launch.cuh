// SPDX-License-Identifier: Apache-2.0
// How what a launch of a persistent kernel is given comes to the SMs.
#pragma once

#include "kernels/persistent/arguments.hpp"
#include "kernels/persistent/memory.cuh"
#include "kernels/persistent/protocol.cuh"
#include "kernels/persistent/state.cuh"

constexpr bool kCarries = kGates > 1;                 // a vector in fp32 from step to step

constexpr __host__ __device__ int whole_words(int bytes) { return (bytes + 15) / 16 * 16; }
constexpr int kInputWords = kUnitsPerSm * kGates * kElementBytes / 4;  // of one sample
constexpr int kInputBytes = whole_words(kBatch * kInputWords * 4);

using Arguments = onchip::RecurrenceArguments;
using onchip::Mark;

__device__ __forceinline__ void mark_clock(const Arguments& a, int t, int thread, Mark mark) {
  if constexpr (ONCHIP_CLOCKS) {
    const u32 now = read_clock();
    if (thread % 32 == 0) {
      a.record[((static_cast<long long>(t) * kBlocks + blockIdx.x) * kWarps + thread / 32) * onchip::kMarksOfStep +
             static_cast<int>(mark)] = now;
    }
  }
}

// Asks for the input of step t of this launch, for one of two places in shared memory; all of kThreads (or kCopying) do.
template <int kInputAt, int kCopying = kThreads>
__device__ __forceinline__ void fetch_input(const Arguments& a, int t, u32 shared, int thread) {
  if (t < a.steps) {
    const char* const from = static_cast<const char*>(a.input) +
                             4ll * kInputWords * (static_cast<long long>(t) * kBatch * kBlocks + blockIdx.x);
#pragma unroll 1
    for (int i = thread; i < kBatch * kInputWords; i += kCopying) {
      const int sample = i / kInputWords;
      copy_4(shared + kInputAt + t % 2 * kInputBytes + 4 * i,
             from + 4ll * (sample * (kBlocks - 1) * static_cast<long long>(kInputWords) + i));
    }
  }
  end_copies();
}

// What is carried from step to step, float [kUnitsPerSm][kBatchPadded] in shared memory: from before the launch, and
// back after it; and the samples' lengths.
__device__ __forceinline__ void take_carry(const Arguments& a, u32 to, u32 lengths, int thread) {
  const float* const carry = a.carry + static_cast<long long>(blockIdx.x) * kUnitsPerSm * kBatchPadded;
#pragma unroll 1
  for (int i = thread; i < kUnitsPerSm * kBatchPadded; i += kThreads) {
    store_shared_float(to + 4 * i, carry[i]);
  }
  if (thread < kBatchPadded) {
    store_shared_int(lengths + 4 * thread, a.lengths[thread]);
  }
}
__device__ __forceinline__ void return_carry(const Arguments& a, u32 from, int thread) {
  float* const carry = a.carry + static_cast<long long>(blockIdx.x) * kUnitsPerSm * kBatchPadded;
#pragma unroll 1
  for (int i = thread; i < kUnitsPerSm * kBatchPadded; i += kThreads) {
    carry[i] = load_shared_float(from + 4 * i);
  }
}

// GRU: of the n gates, float [kUnitsPerSm] in shared memory.
__device__ __forceinline__ void take_bias(const Arguments& a, u32 to, int thread) {
#pragma unroll 1
  for (int i = thread; i < kUnitsPerSm; i += kThreads) {
    store_shared_float(to + 4 * i, a.recurrent_bias[blockIdx.x * kUnitsPerSm + i]);
  }
}
