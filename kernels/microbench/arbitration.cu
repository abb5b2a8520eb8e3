// SPDX-License-Identifier: Apache-2.0
// What hardware counters make of shared-memory loads without a conflict while other accesses want the same data array:
// half of an SM's warps load, each lane 16 bytes, and the other half meanwhile
//
//   ONCHIP_BESIDE=0  do nothing
//   ONCHIP_BESIDE=1  store 16 bytes a lane to shared memory, without a conflict
//   ONCHIP_BESIDE=2  copy 16 bytes a lane from L2 to shared memory, asynchronously
//   ONCHIP_BESIDE=3  load 16 bytes a lane from global memory, out of L1
//
// One block per SM. The loads are the same in all: `iterations` times kLoads for each of kLoaders warps, 4 wavefronts each.

typedef unsigned int u32;

constexpr int kBeside = ONCHIP_BESIDE;
constexpr int kThreads = 512, kLoaders = 8, kLoads = 16;

__shared__ __align__(128) char array[kThreads * 16];

__device__ __forceinline__ u32 load(u32 address) {
  u32 v[4];
  asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(address));
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

// global: [SMs][kThreads] pieces of 16 bytes.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
    microbench_arbitration(const char* global, u32* sink, int iterations) {
  const int thread = static_cast<int>(threadIdx.x);
  const u32 own = static_cast<u32>(__cvta_generic_to_shared(array)) + 16 * thread;
  const char* const source = global + 16ll * (blockIdx.x * kThreads + thread);
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(own), "r"(thread));
  __syncthreads();
  u32 result = 0;
  if (thread / 32 % 2 == 0) {
#pragma unroll 1
    for (int i = 0; i < iterations; ++i) {
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        result ^= load(own);
      }
    }
  } else {
#pragma unroll 1
    for (int i = 0; kBeside != 0 && i < iterations; ++i) {
      if constexpr (kBeside == 1) {
        asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(own), "r"(i));
      } else if constexpr (kBeside == 2) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.commit_group; cp.async.wait_group 4;" ::"r"(own),
                     "l"(source)
                     : "memory");
      } else {
        u32 v[4];
        asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                     : "l"(source));
        result ^= v[0] ^ v[1] ^ v[2] ^ v[3];
      }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
  }
  if (result == 0x9e3779b9u) {  // never seen by the compiler to be impossible
    *sink = result;
  }
}
