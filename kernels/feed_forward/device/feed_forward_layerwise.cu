// SPDX-License-Identifier: Apache-2.0
// What stands between the products of a library that computes a feed-forward network layer by layer
// (kernels/baselines/feed_forward.hpp): inputs from bitmaps or values, bias with ReLU and clip, and images that are dropped; and
// before all, dense weights from sparse ones.
// Features are [image][neuron], or [neuron][image] with room for all images; as fp32, one fp16 word, or two: value and
// residual, times `scale`.

#include "kernels/feed_forward/device/arguments.hpp"
#include "kernels/runtime/integers.cuh"

constexpr int kWords = ONCHIP_WORDS;  // of fp16; 0: fp32
constexpr bool kByNeuron = ONCHIP_BY_NEURON;

__device__ inline u16 to_half(float value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
__device__ inline float from_half(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ inline void put(const onchip::DeviceFeatures& to, u64 at, float value) {
  if constexpr (kWords == 0) {
    static_cast<float*>(to.value)[at] = value;
  } else {
    const u16 word = to_half(value);
    static_cast<u16*>(to.value)[at] = word;
    if constexpr (kWords == 2) {
      static_cast<u16*>(to.residual)[at] = to_half(value - from_half(word));
    }
  }
}

// A warp a row.
extern "C" __global__ void feed_forward_dense(const __grid_constant__ onchip::DenseArguments a) {
  const u32 warps = gridDim.x * (blockDim.x / 32);
  for (u32 row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; row < a.rows; row += warps) {
    for (long long i = a.row_begin[row] + threadIdx.x % 32; i < a.row_begin[row + 1]; i += 32) {
      const u64 at = static_cast<u64>(row) * a.columns + a.column[i];
      if constexpr (kWords == 0) {
        static_cast<float*>(a.dense)[at] = a.value[i];
      } else {
        static_cast<u16*>(a.dense)[at] = to_half(a.value[i]);
      }
    }
  }
}

using Arguments = onchip::LayerwiseArguments;

// Calls take(image, neuron, place) for every feature, neighbours by neighbouring threads.
template <typename Take>
__device__ inline void for_each(const Arguments& a, Take&& take) {
  const u32 fast = kByNeuron ? a.images : a.neurons;
  const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
  for (u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; i < static_cast<u64>(a.images) * a.neurons;
       i += step) {
    const u32 slow_at = i / fast, fast_at = i % fast;
    if (kByNeuron) {
      take(fast_at, slow_at, slow_at * a.stride + fast_at);
    } else {
      take(slow_at, fast_at, i);
    }
  }
}

extern "C" __global__ void feed_forward_expand(const __grid_constant__ Arguments a) {
  for_each(a, [&](u32 image, u32 neuron, u64 place) {
    const float value = a.bitmaps == nullptr ? a.sums[static_cast<u64>(image) * a.neurons + neuron]
                        : a.bitmaps[static_cast<u64>(image) * a.words + neuron / 32] >> neuron % 32 & 1 ? 1
                                                                                                        : 0;
    put(a.to, place, value * a.scale);
  });
}

extern "C" __global__ void feed_forward_activate(const __grid_constant__ Arguments a) {
  for_each(a, [&](u32 image, u32 neuron, u64 place) {
    const float z = a.sums[place] + a.bias[neuron];
    const float value = a.is_linear ? z : z < 0 ? 0 : z > a.clip ? a.clip : z;
    if (value != 0) {
      a.alive[image] = 1;
    }
    put(a.to, place, value * a.scale);
  });
}

extern "C" __global__ void feed_forward_drop(const __grid_constant__ Arguments a) {
  for_each(a, [&](u32 image, u32 neuron, u64 place) {
    const u64 from =
        kByNeuron ? neuron * a.stride + a.rows[image] : static_cast<u64>(a.rows[image]) * a.neurons + neuron;
    if constexpr (kWords == 0) {
      static_cast<float*>(a.to.value)[place] = static_cast<const float*>(a.from.value)[from];
    } else {
      static_cast<u16*>(a.to.value)[place] = static_cast<const u16*>(a.from.value)[from];
      if constexpr (kWords == 2) {
        static_cast<u16*>(a.to.residual)[place] = static_cast<const u16*>(a.from.residual)[from];
      }
    }
  });
}
