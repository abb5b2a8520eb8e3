// SPDX-License-Identifier: Apache-2.0
// Before and after feed_forward_streamed.cu: bitmaps turned, so that a place has a bit for each image of a tile; the
// images that are alive, put together in the tiles of the next launch or marked in the categories.
#pragma once

#include "kernels/feed_forward/device/streamed_shape.cuh"

// Of a 32 x 32 matrix of bits, a row in each lane: its columns.
__device__ inline u32 transpose(u32 row) {
  u32 low = 0x0000ffff;
#pragma unroll
  for (int half = 16; half > 0; half /= 2) {
    const u32 other = __shfl_xor_sync(~0u, row, half);
    row = threadIdx.x & half ? (row & ~low) | (other >> half & low) : (row & low) | (other << half & ~low);
    low ^= low << (half / 2);
  }
  return row;
}

// A warp: 128 neurons of a tile's images.
extern "C" __global__ void feed_forward_transpose(const __grid_constant__ onchip::TransposeArguments a) {
  constexpr int kRounds = (kImages + 31) / 32;
  const u32 count = *a.count, tiles = (count + kImages - 1) / kImages, quads = a.words / 4;
  const u32 lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
  for (u64 i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; i < static_cast<u64>(tiles) * quads; i += warps) {
    const u32 tile = static_cast<u32>(i / quads), quad = static_cast<u32>(i % quads);
    uint4 rows[kRounds];
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const u32 column = 32 * r + lane, at = tile * kImages + column;
      const bool is_image = column < kImages && at < count;
      const u32 id = is_image && a.ids != nullptr ? __ldg(a.ids + at) : at;
      rows[r] = is_image ? __ldg(reinterpret_cast<const uint4*>(a.bitmaps + static_cast<u64>(id) * a.words) + quad)
                         : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      u64 mine = 0;
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        const u32 word = k == 0 ? rows[r].x : k == 1 ? rows[r].y : k == 2 ? rows[r].z : rows[r].w;
        mine |= static_cast<u64>(transpose(word)) << (32 * r);
      }
      const u32 neuron = 128 * quad + 32 * k + lane;
      if (neuron < a.inputs) {
        a.bits[static_cast<u64>(tile) * a.places + __ldg(a.input_places + neuron)] = mine;
      }
    }
  }
}

// A warp: so many rows, of a place's word each, of a tile's images that are alive, to where they stand in the next list.
extern "C" __global__ void feed_forward_compact(const __grid_constant__ onchip::StreamedCompactArguments a) {
  constexpr int kRounds = (kImages + 31) / 32;
  constexpr u32 kRows = 256, kAtOnce = 8;
  const u32 count = *a.count, tiles = (count + kImages - 1) / kImages, rows = a.places * kWords;
  const bool keeps = a.out_features != nullptr;
  const u32 parts = keeps ? (rows + kRows - 1) / kRows : 1;
  const u32 lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
  u32 base = 0, counted = 0;  // images alive in the tiles before, of which so many are counted
  for (u64 i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; i < static_cast<u64>(tiles) * parts; i += warps) {
    const u32 tile = static_cast<u32>(i / parts), part = static_cast<u32>(i % parts);
    u32 alive = 0;
    for (u32 t = counted + lane; t < tile; t += 32) {
      alive += __popcll(a.alive[t]);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      alive += __shfl_xor_sync(~0u, alive, step);
    }
    base += alive;
    counted = tile;
    const u32 left = count - tile * kImages;
    const u64 lives = a.alive[tile] & (left >= 64 ? ~0ull : (1ull << left) - 1);
    if (keeps && tile + 1 == tiles && part == 0 && lane == 0) {
      *a.out_count = base + __popcll(lives);
    }
    u32 slots[kRounds];
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const u32 column = 32 * r + lane, at = tile * kImages + column;
      const bool is_alive = column < kImages && (lives >> column & 1);
      slots[r] = is_alive ? base + __popcll(lives & ((1ull << column) - 1)) : ~0u;
      if (is_alive && part == 0) {
        const u32 id = a.ids != nullptr ? a.ids[at] : at;
        if (keeps) {
          a.out_ids[slots[r]] = id;
        } else {
          atomicOr(a.categories + id / 32, 1u << id % 32);
        }
      }
    }
    if (!keeps || lives == 0) {
      continue;
    }
    const u32 end = min((part + 1) * kRows, rows);
    for (u32 first = part * kRows; first < end; first += kAtOnce) {
      u16 values[kAtOnce][kRounds];
#pragma unroll
      for (u32 k = 0; k < kAtOnce; ++k) {
#pragma unroll
        for (int r = 0; r < kRounds; ++r) {
          if (slots[r] != ~0u && first + k < end) {
            values[k][r] = a.features[(static_cast<u64>(tile) * rows + first + k) * kImages + 32 * r + lane];
          }
        }
      }
#pragma unroll
      for (u32 k = 0; k < kAtOnce; ++k) {
#pragma unroll
        for (int r = 0; r < kRounds; ++r) {
          if (slots[r] != ~0u && first + k < end) {
            const u64 row = static_cast<u64>(slots[r] / kImages) * rows + first + k;
            a.out_features[row * kImages + slots[r] % kImages] = values[k][r];
          }
        }
      }
    }
  }
}
