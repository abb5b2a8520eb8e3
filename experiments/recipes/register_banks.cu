// SPDX-License-Identifier: Apache-2.0
// The loop that experiments/recipes/register_banks.py times: kProducts independent multiply-adds by every thread, whose
// registers the script then chooses anew in the machine code. HALF: of half2 instead of float.
#include <cuda_fp16.h>

#ifdef HALF
typedef __half2 Value;
__device__ __forceinline__ Value multiply_add(Value a, Value b, Value c) { return __hfma2(a, b, c); }
__device__ __forceinline__ Value value(int i) { return __float2half2_rn(static_cast<float>(i)); }
#else
typedef float Value;
__device__ __forceinline__ Value multiply_add(Value a, Value b, Value c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ Value value(int i) { return static_cast<float>(i); }
#endif

constexpr int kValues = 64, kRounds = 8;

extern "C" __global__ void __launch_bounds__(512, 1)
    register_banks(const Value* values, Value* sink, long long* clocks, int iterations) {
  Value sums[kValues];
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    sums[i] = values[i * 512 + threadIdx.x];
  }
  const Value a = value(iterations), b = value(blockDim.x);
  __syncthreads();
  const long long start = clock64();
#pragma unroll 1
  for (int n = 0; n < iterations; ++n) {
#pragma unroll
    for (int k = 0; k < kRounds * kValues; ++k) {
      sums[k % kValues] = multiply_add(sums[k % kValues], a, b);
    }
  }
  const long long end = clock64();
#pragma unroll
  for (int i = 0; i < kValues; ++i) {  // all are used
    sink[i * 512 + threadIdx.x] = sums[i];
  }
  if (threadIdx.x % 32 == 0) {
    clocks[threadIdx.x / 32] = end - start;
  }
}
