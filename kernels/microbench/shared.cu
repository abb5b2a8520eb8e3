// SPDX-License-Identifier: Apache-2.0
// Shared-memory loads of one SM, of ONCHIP_WIDTH bytes a lane.
//
//   ONCHIP_CHASE=1  latency: every word holds its own address, so each load gives the address of the next one.
//   ONCHIP_CHASE=0  throughput: every warp issues kSlots independent loads again and again, at byte offsets from a
//                   table [warp][slot][lane]. The table is what is swept: conflict degrees, random gathers, broadcasts.
//
// One block. A warp's clock is read before and after; the host takes last end - first start.

#include "kernels/runtime/integers.cuh"

constexpr int kWidth = ONCHIP_WIDTH;
constexpr bool kChase = ONCHIP_CHASE;
constexpr int kWords = kWidth / 4;
constexpr int kSlots = kWidth == 16 ? 8 : 16;  // loads in flight per lane
constexpr int kChaseLoads = 32;                // per iteration
constexpr int kArrayBytes = 32768;

static_assert(kWidth == 4 || kWidth == 8 || kWidth == 16, "a lane loads 4, 8 or 16 bytes");

__shared__ __align__(128) u32 array[kArrayBytes / 4];

#include "kernels/microbench/clocks.cuh"

// Volatile, so that the compiler neither drops nor hoists a load; the instruction is the plain one.
__device__ __forceinline__ void load(u32 address, u32 (&v)[kWords]) {
  if constexpr (kWords == 1) {
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v[0]) : "r"(address));
  } else if constexpr (kWords == 2) {
    asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "r"(address));
  } else {
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(address));
  }
}

extern "C" __global__ void __launch_bounds__(1024, 1)
    microbench_shared(const u32* offsets, long long* clocks, u32* sink, int iterations) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const u32 base = static_cast<u32>(__cvta_generic_to_shared(array));
  for (int i = threadIdx.x; i < kArrayBytes / 4; i += blockDim.x) {
    array[i] = base + 4 * i;
  }
  u32 address[kSlots];
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    address[s] = base + offsets[(warp * kSlots + s) * 32 + lane];
  }
  u32 result = address[0];
  __syncthreads();

  const long long start = read_cycles();
  if constexpr (kChase) {
#pragma unroll 1
    for (int i = 0; i < iterations; ++i) {
#pragma unroll
      for (int k = 0; k < kChaseLoads; ++k) {
        u32 v[kWords];
        load(result, v);
        result = v[0];
      }
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < iterations; ++i) {
      u32 v[kSlots][kWords];
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
        load(address[s], v[s]);
      }
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          result ^= v[s][w];
        }
      }
    }
  }
  if (result == 0xffffffffu) {  // never: the last load has arrived before the clock is read
    *sink = result;
  }
  keep_clocks(clocks, start);
}
