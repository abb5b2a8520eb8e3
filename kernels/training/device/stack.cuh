// SPDX-License-Identifier: Apache-2.0
// What a layer of a stack has of its own, and how it keeps pace with its neighbours.
//
// The ring of a layer is read by the layer above, too, which may be some steps behind. Every kAhead / 2 steps a warp group
// says how many steps it has multiplied, and waits until the layer above has multiplied all states that will be emptied in
// the next kAhead / 2 steps: those of kAhead / 2 steps ago.
#pragma once

#include "kernels/persistent/protocol.cuh"
#include "kernels/training/device/shape.cuh"

#if ONCHIP_LAYERS > 1

constexpr int kPaceSteps = kAhead / 2;
constexpr int kProgressWords = kBatchGroups * kSms * kWarpGroups;  // of a layer
constexpr long long kPackedWords = static_cast<long long>(kSms) * kWarps * kTiles * (kTileBytes / 4);

__device__ __forceinline__ int layer() { return static_cast<int>(blockIdx.x) / (kSms * kBatchGroups); }
__device__ __forceinline__ bool is_first_layer() { return layer() == 0; }
__device__ __forceinline__ bool is_last_layer(const Arguments& a) { return layer() == a.layers - 1; }
// Whether this warp multiplies the state of the layer below.
__device__ __forceinline__ bool is_of_below(int warp) { return !is_first_layer() && warp >= kSourceWarps; }

// Those of this block's layer.
__device__ __forceinline__ Arguments of_layer(const Arguments& given) {
  Arguments a = given;
  const onchip::StackedLayer& of = given.stacked[layer()];
  const long long states = static_cast<long long>(layer()) * a.batch * kHidden;
  a.packed += layer() * kPackedWords;
  a.ring += layer() * kRingBytes;
  a.input_bias = of.input_bias;
  a.recurrent_bias = of.recurrent_bias;
  a.initial = of.initial;
  a.initial_cell = of.initial_cell;
  a.final_state = of.final_state;
  a.final_cell = of.final_cell;
  a.initial_carry += a.initial_carry == nullptr ? 0 : states;
  a.final_carry += a.final_carry == nullptr ? 0 : states;
  return a;
}

// Of a layer's warp: W_hh, or W_ih.
__device__ __forceinline__ const void* weights_of(const Arguments& a, int of_layer, bool are_of_below) {
  return are_of_below ? a.stacked[of_layer].w_ih : a.stacked[of_layer].w_hh;
}

__device__ __forceinline__ void clear_progress(const Arguments& a, long long first, long long threads) {
#pragma unroll 1
  for (long long i = first; i < kProgressWords * kLayers; i += threads) {
    a.progress[i] = 0;
  }
}

__device__ __forceinline__ void keep_pace(const Arguments& a, u32 step, int thread, int& polls) {
  u32* const of_group = a.progress + layer() * kProgressWords + batch_group() * (kSms * kWarpGroups);
  if (thread == 0) {
    const int own = sm_of_group() * kWarpGroups + warp_group();
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(of_group + own), "r"(step) : "memory");
  }
  if (!is_last_layer(a) && thread < 32) {
#pragma unroll 1
    for (int i = thread; i < kSms * kWarpGroups; i += 32) {
      u32 above;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(above) : "l"(of_group + kProgressWords + i) : "memory");
      } while (above + kPaceSteps < step && --polls > 0);
    }
  }
}

#else

__device__ __forceinline__ bool is_first_layer() { return true; }
__device__ __forceinline__ bool is_last_layer(const Arguments&) { return true; }
__device__ __forceinline__ bool is_of_below(int) { return false; }
__device__ __forceinline__ const Arguments& of_layer(const Arguments& given) { return given; }
__device__ __forceinline__ const void* weights_of(const Arguments& a, int, bool) { return a.weights; }
__device__ __forceinline__ void clear_progress(const Arguments&, long long, long long) {}
__device__ __forceinline__ void keep_pace(const Arguments&, u32, int, int&) {}

#endif
