// SPDX-License-Identifier: Apache-2.0
// A barrier of the blocks of threads of a team, for feed_forward_streamed.cu: arrivals are counted, and waited for later.

__device__ inline void arrive(u32* arrivals) {
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrivals) : "memory");
  }
}
__device__ inline void wait(const u32* arrivals, u32 times) {
  if (threadIdx.x == 0) {
    u32 seen;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrivals) : "memory");
    } while (static_cast<int>(seen - times * kTeam) < 0);
  }
  __syncthreads();
}
