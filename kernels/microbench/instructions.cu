// SPDX-License-Identifier: Apache-2.0
// Instructions on their way to an SM: a loop of ONCHIP_INSTRUCTIONS FFMA in a straight line, in four chains per thread, so
// that one warp per partition issues nearly one in every cycle while the loop stays in the instruction cache.
//
// One block. A warp's clock is read before and after; the host takes last end - first start. The first pass of
// the loop, which fetches everything once, is not counted.

#include "kernels/runtime/integers.cuh"

constexpr int kBlock = 16;  // instructions
constexpr int kBlocks = ONCHIP_INSTRUCTIONS / kBlock;
static_assert(kBlocks * kBlock == ONCHIP_INSTRUCTIONS, "whole blocks");

#include "kernels/microbench/clocks.cuh"

// A template, not a loop: the compiler does not unroll one that is so long.
template <int kCount>
__device__ __forceinline__ void straight_line(float (&x)[4], float a, float b) {
  if constexpr (kCount == 1) {
#pragma unroll
    for (int k = 0; k < kBlock; ++k) {
      asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x[k % 4]) : "f"(a), "f"(b));
    }
  } else {
    straight_line<kCount / 2>(x, a, b);
    straight_line<kCount - kCount / 2>(x, a, b);
  }
}

extern "C" __global__ void __launch_bounds__(1024, 1)
    microbench_instructions(float a, float b, long long* clocks, u32* sink, int iterations) {
  float x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[i] = static_cast<float>(threadIdx.x + i);
  }
  long long start = 0;
#pragma unroll 1
  for (int n = -1; n < iterations; ++n) {
    if (n == 0) {
      __syncthreads();
      start = read_cycles();
    }
    straight_line<kBlocks>(x, a, b);
  }
  if (x[0] + x[1] + x[2] + x[3] == 1e-30f) {  // as good as never: the chains have ended before the clock is read
    *sink = 1;
  }
  keep_clocks(clocks, start);
}
