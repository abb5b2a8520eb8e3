// SPDX-License-Identifier: Apache-2.0
// What a mask that stays leaves to do in every iteration: the weights' values into the words that the SMs load, and
// gradients only where there are weights. Works on elements of 16 bits, whatever they are.

#include "kernels/training/device/arguments.hpp"
#include "kernels/persistent/types.cuh"

constexpr Precision kPrecision = static_cast<Precision>(ONCHIP_PRECISION);
constexpr int kElementBytes = 2;
#include "kernels/persistent/elements.cuh"

using Arguments = onchip::SparseWeightsArguments;

__device__ __forceinline__ u32 half_of(const Arguments& a, int source) {
  if (source < 0) {
    return 0;
  }
  const u32 bits = a.weights[source];
  return a.scale == 1.0f ? bits : to_bits(a.scale * element(&bits, 0));
}

extern "C" __global__ void prepare(const Arguments a) {
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = first; i < a.count; i += threads) {
    const int2 source = reinterpret_cast<const int2*>(a.sources)[i];
    a.packed[i] = a.words[i] | half_of(a, source.x) | half_of(a, source.y) << 16;
  }
  for (long long i = first; i < a.ring_words; i += threads) {
    static_cast<Word*>(a.ring)[i] = {~0u, ~0u, ~0u, ~0u};
  }
}

__device__ __forceinline__ u32 of_pair(u32 pair, u32 bits) {
  return pair & ((bits & 1 ? 0xffffu : 0u) | (bits & 2 ? 0xffff0000u : 0u));
}

extern "C" __global__ void mask_gradient(const Arguments a) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < a.gradient_words) {
    const u32 bits = a.mask[i];
    uint2& gradient = static_cast<uint2*>(a.gradient)[i];
    const uint2 v = gradient;
    gradient = {of_pair(v.x, bits), of_pair(v.y, bits >> 2)};
  }
}
