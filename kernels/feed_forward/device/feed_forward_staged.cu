// SPDX-License-Identifier: Apache-2.0
// A layer of a sparse feed-forward network by the method that won the challenge of 2020
// (model/feed_forward/staged/plan.hpp), in fp32.
//   item      kImages images x kThreads outputs. Blocks of threads take items round-robin, all outputs of the same
//             images one after the other, so that these come from L2 but once from device memory
//   thread    an output: its sums of all images are in registers. For each chunk of the block's inputs: all copy the
//             chunk to shared memory, [kImages][kChunkInputs]; then each warp walks its slice of the weights
//   alive     a flag for each image: some warp has an output of it that is not zero
// A row's products are rounded and added in the order of the reference (model/feed_forward/reference.hpp), so that
// features are the same, bit by bit. Padding multiplies a zero that is in shared memory for it, never a feature: the
// product with a NaN would be one.

#include "kernels/feed_forward/device/arguments.hpp"
#include "kernels/runtime/integers.cuh"

constexpr int kThreads = ONCHIP_BLOCK_OUTPUTS, kWarps = kThreads / 32;
constexpr int kImages = ONCHIP_IMAGES;
constexpr int kChunkInputs = ONCHIP_CHUNK_INPUTS, kStride = kChunkInputs + 1;
constexpr bool kStaged = ONCHIP_STAGED, kBlocked = ONCHIP_BLOCKED, kHalf = ONCHIP_HALF;
constexpr bool kLinear = ONCHIP_LINEAR;  // some layer is
constexpr u32 kAllLanes = ~0u;

using Arguments = onchip::StagedArguments;

__device__ inline float weight_at(const Arguments& a, u64 at) {
  if constexpr (kHalf) {
    float value;
    asm("{\n.reg .b16 half;\ncvt.u16.u32 half, %1;\ncvt.f32.f16 %0, half;\n}"
        : "=f"(value)
        : "r"(static_cast<u32>(__ldg(static_cast<const u16*>(a.value) + at))));
    return value;
  } else {
    return __ldg(static_cast<const float*>(a.value) + at);
  }
}

template <bool kBitmaps>
__device__ inline float feature(const Arguments& a, u32 row, u32 neuron) {
  if constexpr (kBitmaps) {
    return __ldg(a.bitmaps + static_cast<u64>(row) * a.words + neuron / 32) >> neuron % 32 & 1 ? 1.0f : 0.0f;
  } else {
    return __ldg(a.features + static_cast<u64>(row) * a.inputs + neuron);
  }
}

// Entries [begin, end) of a lane, to the sums of all images.
template <typename Feature>
__device__ inline void add_slice(const Arguments& a, u32 begin, u32 end, float (&sum)[kImages], Feature&& feature_of) {
  const u64 lane = threadIdx.x % 32;
  if constexpr (kBlocked) {
#pragma unroll 4
    for (u32 m = begin; m < end; ++m) {
      const u32 index = __ldg(a.index + m * 32ull + lane);
      const float weight = weight_at(a, m * 32ull + lane);
#pragma unroll
      for (int f = 0; f < kImages; ++f) {
        sum[f] = __fadd_rn(sum[f], __fmul_rn(weight, feature_of(f, index)));
      }
    }
  } else {
#pragma unroll
    for (int f = 0; f < kImages; ++f) {
#pragma unroll 4
      for (u32 m = begin; m < end; ++m) {
        const u32 index = __ldg(a.index + m * 32ull + lane);
        sum[f] = __fadd_rn(sum[f], __fmul_rn(weight_at(a, m * 32ull + lane), feature_of(f, index)));
      }
    }
  }
}

template <bool kBitmaps>
__device__ inline void compute(const Arguments& a) {
  extern __shared__ float staged[];  // [kImages][kStride], a zero at the end of each
  const u32 count = *a.count, warp = threadIdx.x / 32;
  if (kStaged) {
    for (u32 f = threadIdx.x; f < kImages; f += kThreads) {
      staged[f * kStride + kChunkInputs] = 0;
    }
  }
  for (u32 item = blockIdx.x; item < (count + kImages - 1) / kImages * a.blocks; item += gridDim.x) {
    const u32 block = item % a.blocks, first = item / a.blocks * kImages;
    const u32 images = min(count - first, static_cast<u32>(kImages));
    const u32 output = block * kThreads + threadIdx.x;
    u32 row[kImages];  // of those that are missing: the last one's, again
    float sum[kImages];
#pragma unroll
    for (int f = 0; f < kImages; ++f) {
      const u32 position = first + min(static_cast<u32>(f), images - 1);
      row[f] = a.rows == nullptr ? position : __ldg(a.rows + position);
      sum[f] = 0;
    }
    for (u32 chunk = __ldg(a.block_chunk + block), end = __ldg(a.block_chunk + block + 1); chunk < end; ++chunk) {
      const u32 begin_slice = __ldg(a.slice_begin + chunk * kWarps + warp);
      const u32 end_slice = __ldg(a.slice_begin + chunk * kWarps + warp + 1);
      if constexpr (kStaged) {
        const u32 inputs = __ldg(a.chunk_map + chunk), size = __ldg(a.chunk_map + chunk + 1) - inputs;
        for (u32 n = threadIdx.x; n < size; n += kThreads) {
          const u32 neuron = __ldg(a.map + inputs + n);
          float values[kImages];  // all are asked for before the first is stored
#pragma unroll
          for (int f = 0; f < kImages; ++f) {
            values[f] = feature<kBitmaps>(a, row[f], neuron);
          }
#pragma unroll
          for (int f = 0; f < kImages; ++f) {
            staged[f * kStride + n] = values[f];
          }
        }
        __syncthreads();
        add_slice(a, begin_slice, end_slice, sum, [&](int f, u32 index) { return staged[f * kStride + index]; });
        __syncthreads();
      } else {
        const u32 end_row = begin_slice + (output < a.outputs ? __ldg(a.row_length + output) : 0);
        add_slice(a, begin_slice, end_row, sum, [&](int f, u32 index) { return feature<kBitmaps>(a, row[f], index); });
      }
    }
    const float bias = output < a.outputs ? __ldg(a.bias + output) : 0;
#pragma unroll
    for (int f = 0; f < kImages; ++f) {
      const float z = __fadd_rn(sum[f], bias);
      const bool is_as_is = kLinear && a.is_linear && output < a.outputs;
      const float value = is_as_is ? z : output >= a.outputs || z < 0 ? 0 : z > a.clip ? a.clip : z;
      if (f < images) {
        if (output < a.outputs) {
          a.out[static_cast<u64>(first + f) * a.outputs + output] = value;
        }
        if (a.alive != nullptr && __any_sync(kAllLanes, value != 0) && threadIdx.x % 32 == 0) {
          a.alive[first + f] = 1;
        }
      }
    }
  }
}

extern "C" __global__ __launch_bounds__(kThreads) void feed_forward_staged(const __grid_constant__ Arguments a) {
  compute<false>(a);
}

extern "C" __global__ __launch_bounds__(kThreads) void feed_forward_staged_first(const __grid_constant__ Arguments a) {
  compute<true>(a);
}
