// SPDX-License-Identifier: Apache-2.0
// Translations between the caller's order of units and the owner's order of a persistent kernel's plan.
// Sequences of samples of different lengths run from step 0 to their own last; backward ones from their last to step 0.

#include "kernels/persistent/state.cuh"  // first: what the others are made for
#if ONCHIP_STATE_IN_SPANS != 0
#include "kernels/dense/spans.cuh"
#else
#include "kernels/sparse/planes.cuh"
#endif

#include "kernels/persistent/arguments.hpp"
#include "kernels/persistent/elements.cuh"
#include "kernels/persistent/word.cuh"
#include "kernels/recurrent/translation_arguments.hpp"

// Samples of the caller; a plan may compute more, which stay zero.
constexpr int kCallerBatch = ONCHIP_CALLER_BATCH;
static_assert(kCallerBatch <= kBatch, "all samples of the caller are computed");

// A state that shared memory holds is read from there, because its units lie far apart.
constexpr bool kStagesState = ONCHIP_STATE_IN_SPANS == 0;

// Element index of (unit, sample) in a state in L2.
__device__ __forceinline__ int l2_index(int unit, int sample) {
  if constexpr (kStagesState) {
    return in_l2(kElementBytes * state_index(unit, sample)) / kElementBytes;
  } else {
    return state_index(unit, sample);
  }
}

using Arguments = onchip::TranslationArguments;

// An element that comes out.
__device__ __forceinline__ u32 outcome(unsigned status, u32 bits) { return status == 0 ? bits : canonical(~0u); }

// Where step t of the recurrence stands in the caller's sequence.
__device__ __forceinline__ long long caller_step(const Arguments& a, int t, int sample) {
  return a.backward ? a.lengths[sample] - 1 - t : t;
}

// One block of at least kBatchPadded threads: the lengths come as an argument, so that a captured graph keeps them.
extern "C" __global__ void __launch_bounds__(512) set_lengths(const onchip::LengthArguments<kBatchPadded> a) {
#pragma unroll
  for (int sample = 0; sample < kBatchPadded; ++sample) {
    if (static_cast<int>(threadIdx.x) == sample) {
      a.to[sample] = a.lengths[sample];
    }
  }
}

// One block per (step, sample): [steps, kCallerBatch, kGates, kHidden] -> [steps of the launch, kBatch, kStateUnits,
// kGates], the rows of each unit in their own order; places without a unit, and steps beyond a sample's length, which is
// 0 of samples beyond the caller's, become zero.
extern "C" __global__ void __launch_bounds__(512) to_input_order(const Arguments a) {
  constexpr int kElements = kStateUnits * kGates;
  const int step = a.first_step + blockIdx.x / kBatch, sample = blockIdx.x % kBatch;
  const u32 base = static_cast<u32>(__cvta_generic_to_shared(shared_memory));
  for (int i = threadIdx.x; i < (kElements * kElementBytes + 15) / 16; i += blockDim.x) {
    store_shared(base + 16 * i, {0, 0, 0, 0});
  }
  __syncthreads();
  if (step < a.lengths[sample]) {
    const long long from = (caller_step(a, step, sample) * kCallerBatch + sample) * a.stride;
    for (int i = threadIdx.x; i < kGates * kHidden; i += blockDim.x) {
      const u32 bits = a.from ? load_element(a.from, from + i) : 0;
      store_element(shared_memory, a.order[i], a.bias ? to_bits(element(&bits, 0) + a.bias[i]) : bits);
    }
  }
  __syncthreads();
  u32* const to = static_cast<u32*>(a.to) + static_cast<long long>(blockIdx.x) * (kElements * kElementBytes / 4);
  for (int i = threadIdx.x; i < kElements * kElementBytes / 4; i += blockDim.x) {
    to[i] = reinterpret_cast<const u32*>(shared_memory)[i];
  }
}

// One block: the initial state [kCallerBatch, kHidden] -> a state; places without a unit or a sample become zero.
extern "C" __global__ void __launch_bounds__(512) to_state_order(const Arguments a) {
  for (int i = threadIdx.x; i < kStateStride / 16; i += blockDim.x) {
    static_cast<Word*>(a.to)[i] = {0, 0, 0, 0};
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kCallerBatch * kHidden; i += blockDim.x) {
    const int sample = i / kHidden, unit = i - sample * kHidden;
    store_element(a.to, l2_index(a.order[unit], sample), canonical(load_element(a.from, i)));
  }
}

// One block per step of the launch: the states of the launch -> [steps, kCallerBatch, kHidden]; steps beyond a sample's
// length become zero.
extern "C" __global__ void __launch_bounds__(512) from_state_order(const Arguments a) {
  const unsigned status = *a.status;
  const Word* const from = static_cast<const Word*>(a.from) + static_cast<long long>(blockIdx.x) * (kStateStride / 16);
  const void* state = from;
  if constexpr (kStagesState) {
    const u32 base = static_cast<u32>(__cvta_generic_to_shared(shared_memory));
    for (int i = threadIdx.x; i < kStateWords; i += blockDim.x) {
      store_shared(base + 16 * i, from[in_l2(16 * i) / 16]);
    }
    __syncthreads();
    state = shared_memory;
  }
  const int step = a.first_step + blockIdx.x;
  for (int sample = 0; sample < kCallerBatch; ++sample) {
    const bool inside = step < a.lengths[sample];
    const long long to = ((inside ? caller_step(a, step, sample) : step) * kCallerBatch + sample) * a.stride;
    for (int unit = threadIdx.x; unit < kHidden; unit += blockDim.x) {
      const u32 bits = load_element(state, kStagesState ? state_index(a.order[unit], sample) : l2_index(a.order[unit], sample));
      store_element(a.to, to + unit, outcome(status, inside ? bits : 0));
    }
  }
}

// One block per sample: its state after its last step, if that lies in this launch, -> [kCallerBatch, kHidden]. `from`: the
// states [steps of the launch + 1, ...] with the one before the first.
extern "C" __global__ void __launch_bounds__(512) to_final_state(const Arguments a) {
  const int sample = blockIdx.x;
  const unsigned status = *a.status;
  const int steps = a.lengths[sample] - a.first_step;  // of the sample, in this launch
  if (steps < (a.first_step > 0) || steps > a.steps) {
    return;
  }
  const long long state = static_cast<long long>(steps) * (kStateStride / kElementBytes);
  for (int unit = threadIdx.x; unit < kHidden; unit += blockDim.x) {
    store_element(a.to, static_cast<long long>(sample) * kHidden + unit,
                  outcome(status, load_element(a.from, state + l2_index(a.order[unit], sample))));
  }
}

// One block per sample: the initial carry [kCallerBatch, kHidden] -> float [kStateUnits, kBatchPadded], and back.
extern "C" __global__ void __launch_bounds__(512) to_carry_order(const Arguments a) {
  const int sample = blockIdx.x;
  for (int unit = threadIdx.x; unit < kHidden; unit += blockDim.x) {
    const u32 bits = load_element(a.from, static_cast<long long>(sample) * kHidden + unit);
    static_cast<float*>(a.to)[a.order[unit] * kBatchPadded + sample] = element(&bits, 0);
  }
}

extern "C" __global__ void __launch_bounds__(512) from_carry_order(const Arguments a) {
  const int sample = blockIdx.x;
  const unsigned status = *a.status;
  for (int unit = threadIdx.x; unit < kHidden; unit += blockDim.x) {
    const float carry = static_cast<const float*>(a.from)[a.order[unit] * kBatchPadded + sample];
    store_element(a.to, static_cast<long long>(sample) * kHidden + unit, outcome(status, to_bits(carry)));
  }
}
