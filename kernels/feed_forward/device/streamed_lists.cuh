// SPDX-License-Identifier: Apache-2.0
// Before and after feed_forward_streamed.cu: bitmaps turned, so that a place has a bit for each image of a tile; the
// images that are alive, put together in the tiles of the next launch or marked in the categories.

struct TransposeArguments {
  const u32* bitmaps;  // [image][words]
  int words, inputs, places;
  const u32* input_places;  // [inputs]
  const u32 *ids, *count;   // ids: null: all images
  u64* bits;                // [tile][place]
};

// A warp: 128 neurons of a tile's images.
extern "C" __global__ void feed_forward_transpose(const __grid_constant__ TransposeArguments a) {
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
        for (u32 bit = 0; bit < 32; ++bit) {
          const u32 votes = __ballot_sync(~0u, word >> bit & 1);
          mine |= static_cast<u64>(lane == bit ? votes : 0) << (32 * r);
        }
      }
      const u32 neuron = 128 * quad + 32 * k + lane;
      if (neuron < a.inputs) {
        a.bits[static_cast<u64>(tile) * a.places + __ldg(a.input_places + neuron)] = mine;
      }
    }
  }
}

struct CompactArguments {
  const u64* alive;  // [tile]
  const u32 *ids, *count;  // of the images before; ids: null: all
  int places;
  const u16* features;
  u16* out_features;  // null: images alive are marked in categories
  u32 *out_ids, *out_count;
  u32* categories;  // a bit per image
};

// A block of threads: a tile's images that are alive, to the end of the next list.
extern "C" __global__ void feed_forward_compact(const __grid_constant__ CompactArguments a) {
  constexpr int kRounds = (kImages + 31) / 32;
  __shared__ u32 base;
  const u32 count = *a.count, tiles = (count + kImages - 1) / kImages;
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const u32 left = count - tile * kImages;
    const u64 lives = a.alive[tile] & (left >= 64 ? ~0ull : (1ull << left) - 1);
    if (threadIdx.x == 0) {
      base = a.out_features != nullptr && lives ? atomicAdd(a.out_count, __popcll(lives)) : 0;
    }
    __syncthreads();
    u32 slots[kRounds];
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const u32 column = 32 * r + lane;
      const bool is_alive = column < kImages && (lives >> column & 1);
      const u32 at = tile * kImages + column;
      const u32 id = is_alive && a.ids != nullptr ? a.ids[at] : at;
      slots[r] = is_alive ? base + __popcll(lives & ((1ull << column) - 1)) : ~0u;
      if (warp == 0 && is_alive && a.out_features != nullptr) {
        a.out_ids[slots[r]] = id;
      } else if (warp == 0 && is_alive) {
        atomicOr(a.categories + id / 32, 1u << id % 32);
      }
    }
    if (a.out_features != nullptr && lives) {
      for (u32 row = warp; row < a.places * kWords; row += warps) {
#pragma unroll
        for (int r = 0; r < kRounds; ++r) {
          if (slots[r] != ~0u) {
            const u64 from = (static_cast<u64>(tile) * a.places * kWords + row) * kImages + 32 * r + lane;
            const u64 to = (static_cast<u64>(slots[r] / kImages) * a.places * kWords + row) * kImages + slots[r] % kImages;
            a.out_features[to] = a.features[from];
          }
        }
      }
    }
    __syncthreads();
  }
}
