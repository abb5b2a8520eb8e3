// SPDX-License-Identifier: Apache-2.0
// Arithmetic of one SM: ONCHIP_ILP independent chains per thread, each a sequence of one dependent operation. One warp
// per partition with one chain gives the latency, many warps or chains the issue interval.
//
// One block. A warp's clock is read before and after; the host takes last end - first start. Operands come from
// arguments, so that nothing can be folded; comments name the machine instruction each step must become.

#include "kernels/runtime/integers.cuh"

enum Operation { kFfma, kHfma2, kHalfToFloat, kLop3, kIadd3, kShift, kPermute, kSelect, kBf16Low, kBf16High, kHmma };

constexpr Operation kOperation = static_cast<Operation>(ONCHIP_OPERATION);
constexpr int kIlp = ONCHIP_ILP;
constexpr int kSteps = 64;  // per chain and iteration, unrolled

struct Chain {
  u32 x, y;
  float sum[4];  // of the tensor cores
};

#include "kernels/microbench/clocks.cuh"

__device__ __forceinline__ void ffma(u32& x, u32 factor, u32 a, u32 b) {
  float f;
  asm volatile("fma.rn.f32 %0, %1, %2, %3;"
               : "=f"(f)
               : "f"(__uint_as_float(factor)), "f"(__uint_as_float(a)), "f"(__uint_as_float(b)));
  x = __float_as_uint(f);
}

__device__ __forceinline__ void step(Chain& c, u32 a, u32 b, bool p, bool q, int k) {
  if constexpr (kOperation == kFfma) {  // FFMA
    ffma(c.x, c.x, a, b);
  } else if constexpr (kOperation == kHfma2) {  // HFMA2
    asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(c.x) : "r"(a), "r"(b));
  } else if constexpr (kOperation == kHalfToFloat) {  // HADD2.F32: of the low half of the result before
    float f;
    asm volatile("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(static_cast<u16>(c.x)));
    c.x = __float_as_uint(f);
  } else if constexpr (kOperation == kLop3) {  // LOP3: (x & a) ^ b
    asm volatile("lop3.b32 %0, %0, %1, %2, 0x6a;" : "+r"(c.x) : "r"(a), "r"(b));
  } else if constexpr (kOperation == kIadd3) {  // IADD3
    asm volatile("{ .reg .u32 t; add.u32 t, %0, %1; add.u32 %0, t, %2; }" : "+r"(c.x) : "r"(a), "r"(c.y));
  } else if constexpr (kOperation == kShift) {  // SHF
    asm volatile("shl.b32 %0, %0, %1;" : "+r"(c.x) : "r"(a));
  } else if constexpr (kOperation == kPermute) {  // PRMT
    asm volatile("prmt.b32 %0, %0, %1, %2;" : "+r"(c.x) : "r"(a), "r"(b));
  } else if constexpr (kOperation == kSelect) {  // 2 SEL: swap if the predicate says so, as the reduction does
    const bool swap = k % 2 ? p : q;
    u32 x, y;
    asm volatile("{ .reg .pred s; setp.ne.u32 s, %4, 0; selp.u32 %0, %2, %3, s; selp.u32 %1, %3, %2, s; }"
                 : "=r"(x), "=r"(y)
                 : "r"(c.x), "r"(c.y), "r"(static_cast<u32>(swap)));
    c.x = x;
    c.y = y;
  } else if constexpr (kOperation == kBf16Low) {  // unpack the low half, then FFMA
    ffma(c.x, c.x << 16, a, b);
  } else if constexpr (kOperation == kBf16High) {  // unpack the high half, then FFMA
    ffma(c.x, c.x & 0xffff0000u, a, b);
  } else {  // HMMA.16816.F32
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %4, %5}, {%4, %5}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c.sum[0]), "+f"(c.sum[1]), "+f"(c.sum[2]), "+f"(c.sum[3])
                 : "r"(a), "r"(b));
  }
}

extern "C" __global__ void __launch_bounds__(1024, 1)
    microbench_arithmetic(u32 a, u32 b, long long* clocks, u32* sink, int iterations) {
  const int lane = threadIdx.x % 32;
  const bool p = (a >> lane & 1) != 0, q = (b >> lane & 1) != 0;
  Chain chains[kIlp];
#pragma unroll
  for (int i = 0; i < kIlp; ++i) {
    chains[i] = {a + threadIdx.x + i, b ^ (threadIdx.x * 3 + i), {}};
  }
  __syncthreads();

  const long long start = read_cycles();
#pragma unroll 1
  for (int n = 0; n < iterations; ++n) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
#pragma unroll
      for (int i = 0; i < kIlp; ++i) {
        step(chains[i], a, b, p, q, k);
      }
    }
  }
  u32 result = 0;
#pragma unroll
  for (int i = 0; i < kIlp; ++i) {
    result += chains[i].x ^ chains[i].y ^ __float_as_uint(chains[i].sum[0] + chains[i].sum[3]);
  }
  if (result == 0x5bd1e995u) {  // as good as never: the chains have ended before the clock is read
    *sink = result;
  }
  keep_clocks(clocks, start);
}
