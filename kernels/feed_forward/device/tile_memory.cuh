// SPDX-License-Identifier: Apache-2.0
// A tile's features in shared memory: from bitmaps, from device memory, and back for the images that are alive, which the
// warps mark after a layer.
#pragma once

#include "kernels/feed_forward/device/blocks_shape.cuh"
#include "kernels/feed_forward/device/fragments.cuh"

// 8 x 8 bits: byte i, bit j becomes byte j, bit i.
__device__ inline u64 transposed(u64 x) {
  u64 t = (x ^ x >> 7) & 0x00AA00AA00AA00AAull;
  x ^= t ^ t << 7;
  t = (x ^ x >> 14) & 0x0000CCCC0000CCCCull;
  x ^= t ^ t << 14;
  t = (x ^ x >> 28) & 0x00000000F0F0F0F0ull;
  return x ^ t ^ t << 28;
}

// Bitmaps of a tile, into shared memory; done when the copies of this thread are.
__device__ inline void copy_bitmaps(Memory& memory, const Arguments& a, u32 first, u32 count) {
#pragma unroll 1
  for (int i = threadIdx.x; i < kImages * kBitQuads; i += kThreads) {
    const int image = i / kBitQuads, quad = i % kBitQuads;
    const u32 at = first + image;
    const u32 id = at < count && a.ids != nullptr ? __ldg(a.ids + at) : at;
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(&memory.bitmaps[image][4 * quad])),
        "l"(a.bitmaps + (at < count ? static_cast<u64>(id) * (4 * kBitQuads) + 4 * quad : 0)), "r"(at < count ? 16 : 0)
        : "memory");
  }
}

// The tile's bitmaps become features, values only.
__device__ inline void expand_bitmaps(Memory& memory, u8* features, const Arguments& a) {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < kGroups * 4 * kBitQuads; i += kThreads) {
    const int group = i / (4 * kBitQuads), word = i % (4 * kBitQuads);
    u32 row[8];
#pragma unroll
    for (int image = 0; image < 8; ++image) {
      row[image] = memory.bitmaps[8 * group + image][word];
    }
    u64 out[4];
#pragma unroll
    for (int byte = 0; byte < 4; ++byte) {
      const u32 select = byte | (byte + 4) << 4;
      const u32 low = __byte_perm(__byte_perm(row[0], row[1], select), __byte_perm(row[2], row[3], select), 0x5410);
      const u32 high = __byte_perm(__byte_perm(row[4], row[5], select), __byte_perm(row[6], row[7], select), 0x5410);
      out[byte] = transposed(low | static_cast<u64>(high) << 32);
    }
    uint4* target = reinterpret_cast<uint4*>(&memory.bits[group][32 * word]);
    target[0] = reinterpret_cast<const uint4*>(out)[0];
    target[1] = reinterpret_cast<const uint4*>(out)[1];
  }
  __syncthreads();
#pragma unroll 2
  for (int place = threadIdx.x; place < kUsed; place += kThreads) {
    const u32 neuron = __ldg(a.input_neurons + place);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const u32 bits = neuron < kInputs ? memory.bits[group][neuron] : 0;
      uint4 value;
      value.x = ((bits & 1) | (bits & 2) << 15) * a.one;
      value.y = ((bits >> 2 & 1) | (bits & 8) << 13) * a.one;
      value.z = ((bits >> 4 & 1) | (bits & 32) << 11) * a.one;
      value.w = ((bits >> 6 & 1) | (bits & 128) << 9) * a.one;
      *reinterpret_cast<uint4*>(features + group * kGroupBytes + place * kPlaceBytes) = value;
    }
  }
}

// The 16 bytes of shared memory that hold the lower and upper halves of an item: a place's value and residual, or the
// values of two places.
__device__ inline u8* lower_halves(u8* features, int group, int item) {
  return features + group * kGroupBytes + item * (kWords == 2 ? kPlaceBytes : 2 * kPlaceBytes);
}
constexpr int kUpperHalves = kWords == 2 ? kWordBytes : kPlaceBytes;

// Features of a tile from device memory.
__device__ inline void load_features(u8* features, const Arguments& a, u32 first, u32 count) {
#pragma unroll 1
  for (int item = threadIdx.x; item < kItems; item += kThreads) {
    u32 word[kGroups][8];
#pragma unroll
    for (int i = 0; i < kImages; ++i) {
      word[i / 8][i % 8] = first + i < count ? __ldcs(a.features + static_cast<u64>(first + i) * kItems + item) : 0;
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      u32(&w)[8] = word[group];
      uint4 low, high;
      low.x = __byte_perm(w[0], w[1], 0x5410), high.x = __byte_perm(w[0], w[1], 0x7632);
      low.y = __byte_perm(w[2], w[3], 0x5410), high.y = __byte_perm(w[2], w[3], 0x7632);
      low.z = __byte_perm(w[4], w[5], 0x5410), high.z = __byte_perm(w[4], w[5], 0x7632);
      low.w = __byte_perm(w[6], w[7], 0x5410), high.w = __byte_perm(w[6], w[7], 0x7632);
      u8* target = lower_halves(features, group, item);
      *reinterpret_cast<uint4*>(target) = low;
      *reinterpret_cast<uint4*>(target + kUpperHalves) = high;
    }
  }
}

// Features of the images that are alive, to their slots in device memory.
__device__ inline void store_features(const Memory& memory, u8* features, const Arguments& a) {
#pragma unroll 1
  for (int item = threadIdx.x; item < kItems; item += kThreads) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const u8* source = lower_halves(features, group, item);
      const uint4 low = *reinterpret_cast<const uint4*>(source);
      const uint4 high = *reinterpret_cast<const uint4*>(source + kUpperHalves);
      const u32 word[8] = {__byte_perm(low.x, high.x, 0x5410), __byte_perm(low.x, high.x, 0x7632),
                           __byte_perm(low.y, high.y, 0x5410), __byte_perm(low.y, high.y, 0x7632),
                           __byte_perm(low.z, high.z, 0x5410), __byte_perm(low.z, high.z, 0x7632),
                           __byte_perm(low.w, high.w, 0x5410), __byte_perm(low.w, high.w, 0x7632)};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const u32 slot = memory.slots[8 * group + i];
        if (slot != kNowhere) {
          a.out_features[static_cast<u64>(slot) * kItems + item] = word[i];
        }
      }
    }
  }
}

// Of the two images per group whose sums a lane holds, over its rows of a layer.
struct Extremes {
  u32 any[kGroups];    // values, or-ed
  u32 least[kGroups];  // smallest value, fp16
};

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
