// SPDX-License-Identifier: Apache-2.0
// Writes down every access to shared memory of one step, for the comparison with what the simulator generates
// (sim/sparse/plan_trace.hpp): only in kernels that are compiled for it, in which every access takes a hundred times as long.
//
//   captured   u32 [kBlocks][kWarps][2 + kCapturedAccesses * onchip::kAccessWords]: the number of the next access while they are
//              captured; how many there were; then each
//   access     how << 8 | bytes per lane; active lanes; the SM's clock; [32] byte addresses from the block's first
#pragma once

#include "kernels/persistent/arguments.hpp"
#include "kernels/runtime/integers.cuh"

extern __shared__ __align__(128) char shared_memory[];

enum Access { kLoads, kStores, kCopies };

#ifdef ONCHIP_CAPTURED_ACCESSES
constexpr u32 kCapturedAccesses = ONCHIP_CAPTURED_ACCESSES;  // room for each warp
constexpr u32 kNotCapturing = ~0u;
__device__ u32* captured;

__device__ __forceinline__ u32* captured_of_warp() {
  const int warp = static_cast<int>(blockIdx.x) * (ONCHIP_THREADS / 32) + static_cast<int>(threadIdx.x) / 32;
  return captured + warp * (2ll + kCapturedAccesses * onchip::kAccessWords);
}

constexpr int kCapturedStep = ONCHIP_CAPTURED_STEP;

// Every thread, before its first access.
__device__ __forceinline__ void prepare_capture(u32* memory) {
  captured = memory;
  *captured_of_warp() = kNotCapturing;
  __syncthreads();
}
// All lanes of a warp, where step t begins.
__device__ __forceinline__ void steer_capture(int t) {
  __syncwarp();
  if (t == kCapturedStep) {
    *captured_of_warp() = 0;
  } else if (t == kCapturedStep + 1 && threadIdx.x % 32 == 0) {
    captured_of_warp()[1] = *captured_of_warp();
    *captured_of_warp() = kNotCapturing;
  }
  __syncwarp();
}
// All lanes of a warp, where some may be ahead: lanes that come here from different accesses would be taken for one.
__device__ __forceinline__ void converge_for_capture() { __syncwarp(); }

__device__ __noinline__ void capture(Access how, int bytes, u32 address, bool active) {
  const u32 lanes = __activemask();
  const int lane = static_cast<int>(threadIdx.x) % 32, leader = __ffs(static_cast<int>(lanes)) - 1;
  volatile u32* const of_warp = captured_of_warp();
  const u32 count = __shfl_sync(lanes, *of_warp, leader);
  const u32 active_lanes = __ballot_sync(lanes, active);
  if (count >= kCapturedAccesses || active_lanes == 0) {
    return;
  }
  volatile u32* const access = of_warp + 2 + count * onchip::kAccessWords;
  if (lane == leader) {
    u32 now;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
    access[0] = static_cast<u32>(how) << 8 | static_cast<u32>(bytes);
    access[1] = active_lanes;
    access[2] = now;
    of_warp[0] = count + 1;
  }
  access[3 + lane] = address - static_cast<u32>(__cvta_generic_to_shared(shared_memory));
  __syncwarp(lanes);
}
#else
__device__ __forceinline__ void prepare_capture(u32*) {}
__device__ __forceinline__ void steer_capture(int) {}
__device__ __forceinline__ void converge_for_capture() {}
__device__ __forceinline__ void capture(Access, int, u32, bool) {}
#endif
