// SPDX-License-Identifier: Apache-2.0
// Which images of a tile are alive after its last layer, for feed_forward_blocks.cu, and where they go.

// Adds this warp's part of which images are alive and not settled.
__device__ inline void mark(Memory& memory, const Arguments& a, const Extremes& extremes) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    u32 word = extremes.any[g];
#pragma unroll
    for (int step = 4; step < 32; step *= 2) {
      word |= __shfl_xor_sync(~0u, word, step);
    }
    const u32 pair = ((word & 0xffff) ? 1u : 0u) | ((word >> 16) ? 2u : 0u);
    if (lane < 4 && pair) {
      atomicOr(reinterpret_cast<u32*>(&memory.alive) + g / 4, pair << (8 * (g % 4) + 2 * lane));
    }
    if (kSettles) {
      const u32 below =
          ((extremes.least[g] & 0xffff) < a.settled ? 1u : 0u) | ((extremes.least[g] >> 16) < a.settled ? 2u : 0u);
      if (below) {
        atomicOr(reinterpret_cast<u32*>(&memory.unsettled) + g / 4, below << (8 * (g % 4) + 2 * (lane % 4)));
      }
    }
  }
}

// Where the features of the images that are alive go, by the first warps.
__device__ inline void take_slots(Memory& memory, const Arguments& a, u32 first, u32 count) {
  const int i = threadIdx.x, lane = threadIdx.x % 32;
  if (i >= (kImages + 31) / 32 * 32) {
    return;
  }
  const bool lives = i < kImages && first + i < count && (memory.alive >> i & 1);
  const u32 all = __ballot_sync(~0u, lives);
  const u32 id = lives && a.ids != nullptr ? __ldg(a.ids + first + i) : first + i;
  u32 at = 0;
  if (a.out_features != nullptr && lane == 0 && all) {
    at = atomicAdd(a.out_count, __popc(all));
  }
  at = __shfl_sync(~0u, at, 0) + __popc(all & ((1u << lane) - 1));
  if (i < kImages) {
    memory.slots[i] = lives ? at : kNowhere;
  }
  if (lives && a.out_features != nullptr) {
    a.out_ids[at] = id;
  } else if (lives) {
    atomicOr(a.categories + id / 32, 1u << id % 32);
  }
}
