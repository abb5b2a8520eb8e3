// SPDX-License-Identifier: Apache-2.0
// What ends a row and a step, inside one SM:
//
//   kShuffle   x += shuffle(x): one chain gives the latency, several chains and warps the throughput
//   kBarrier   __syncthreads, arrivals together
//   kTanh      x = tanhf(x + bias): the function has two ways (a branch, or a select if the compiler prefers); the
//              bias decides which one the lanes of a warp take
//
// One block. A warp's clock is read before and after; the host takes last end - first start.

#include "kernels/runtime/integers.cuh"

enum Kind { kShuffle, kBarrier, kTanh };

constexpr Kind kKind = static_cast<Kind>(ONCHIP_KIND);
constexpr int kIlp = ONCHIP_ILP;
constexpr int kSteps = 32;  // per chain and iteration, unrolled

#include "kernels/microbench/clocks.cuh"

extern "C" __global__ void __launch_bounds__(1024, 1)
    microbench_shuffle(float even_bias, float odd_bias, long long* clocks, u32* sink, int iterations) {
  const int lane = threadIdx.x % 32;
  const float bias = lane % 2 ? odd_bias : even_bias;
  float x[kIlp];
#pragma unroll
  for (int i = 0; i < kIlp; ++i) {
    x[i] = bias * (i + 1);
  }
  __syncthreads();

  const long long start = read_cycles();
#pragma unroll 1
  for (int n = 0; n < iterations; ++n) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      if constexpr (kKind == kBarrier) {
        __syncthreads();
      } else {
#pragma unroll
        for (int i = 0; i < kIlp; ++i) {
          if constexpr (kKind == kShuffle) {
            x[i] += __shfl_xor_sync(0xffffffffu, x[i], 1 << k % 5);
          } else {
            x[i] = tanhf(x[i] + bias);
          }
        }
      }
    }
  }
  float result = 0;
#pragma unroll
  for (int i = 0; i < kIlp; ++i) {
    result += x[i];
  }
  if (result == 0.123456f) {  // as good as never: the chains have ended before the clock is read
    *sink = 1;
  }
  keep_clocks(clocks, start);
}
