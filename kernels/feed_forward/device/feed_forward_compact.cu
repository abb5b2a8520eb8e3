// SPDX-License-Identifier: Apache-2.0
// After a layer, a list of the images that are alive: flags become rows of features for the next layer to read, and the
// images that they are of; after the last layer, a bit for each image.

#include "kernels/feed_forward/device/arguments.hpp"
#include "kernels/runtime/integers.cuh"

constexpr u32 kAllLanes = ~0u;

extern "C" __global__ void feed_forward_compact(const __grid_constant__ onchip::CompactArguments a) {
  const u32 count = *a.count, lane = threadIdx.x % 32;
  for (u32 base = blockIdx.x * blockDim.x; base < count; base += gridDim.x * blockDim.x) {
    const u32 position = base + threadIdx.x;
    const bool lives = position < count && a.alive[position] != 0;
    if (position < count) {
      a.alive[position] = 0;
    }
    const u32 id = lives && a.ids != nullptr ? a.ids[position] : position;
    if (a.categories != nullptr) {
      if (lives) {
        atomicOr(a.categories + id / 32, 1u << id % 32);
      }
      continue;
    }
    const u32 living = __ballot_sync(kAllLanes, lives);
    u32 to = 0;
    if (lane == 0 && living != 0) {
      to = atomicAdd(a.next_count, __popc(living));
    }
    to = __shfl_sync(kAllLanes, to, 0) + __popc(living & ((1u << lane) - 1));
    if (lives) {
      a.next_rows[to] = position;
      a.next_ids[to] = id;
    }
  }
}
