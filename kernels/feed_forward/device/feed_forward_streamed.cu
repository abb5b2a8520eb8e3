// SPDX-License-Identifier: Apache-2.0
// Sparse feed-forward inference with tensor cores where no tile of images fits into shared memory: features go from L2
// to registers and back in every layer. The blocks and their records are those of feed_forward_blocks.cu, but for places
// of 32 bits.
//
//   window       ONCHIP_AT_ONCE tiles for each batch group, of 8 * ONCHIP_GROUPS images, go through all layers of the
//                launch together, so that their features stay in L2. The last window has up to half as many more, or
//                the last two have fewer, about the same number.
//   batch group  ONCHIP_SMS blocks of threads, one on each SM, compute a layer of a tile. Layers of a window's tiles go
//                to the batch groups one after another, so that all have as much to do for any number of tiles. While a
//                batch group's last warps end a layer of one tile, the others are at the next one's.
//   warp         items of a layer: ONCHIP_BLOCKS output blocks, one after another, that share inputs
//   feature      a fp16 word, or two, value and residual, as in feed_forward_blocks.cu
//
//   features [tile][place][word][image]. Image n * ONCHIP_GROUPS + g is column n of the g-th product, so that what a lane
//   reads and writes of a place lies side by side. Columns that have no image are not written.
//
// streamed_lists.cuh is beside it.

#include "kernels/feed_forward/device/fragments.cuh"
#include "kernels/feed_forward/device/streamed_lists.cuh"
#include "kernels/feed_forward/device/streamed_shape.cuh"

// ---- which of a tile's images are alive, and which have a feature below the clip ------------------------------------------

// What a lane has seen of its columns.
struct Extremes {
  u32 any[2][kPairs];    // values, or-ed
  u32 least[2][kPairs];  // smallest values, fp16
};

__device__ inline Extremes nothing_seen() {
  Extremes extremes;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      extremes.any[j][p] = 0;
      extremes.least[j][p] = kLargest;
    }
  }
  return extremes;
}

// Adds what this warp's lanes have seen to the bits of a tile's images.
__device__ inline void mark(const Extremes& extremes, u32 settled, u64* alive, u64* unsettled) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    u32 lives = 0, below = 0;  // a bit per group
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const u32 any = extremes.any[j][p], least = extremes.least[j][p];
      lives |= ((any & 0xffff) ? 1u : 0u) << (2 * p) | ((any >> 16) ? 1u : 0u) << (2 * p + 1);
      below |= ((least & 0xffff) < settled ? 1u : 0u) << (2 * p) | ((least >> 16) < settled ? 1u : 0u) << (2 * p + 1);
    }
#pragma unroll
    for (int step = 4; step < 32; step *= 2) {
      lives |= __shfl_xor_sync(~0u, lives, step);
      below |= __shfl_xor_sync(~0u, below, step);
    }
    if (lane < 4) {
      const int first = (2 * lane + j) * kGroups;  // image
      if (lives) {
        atomicOr(reinterpret_cast<u32*>(alive) + first / 32, lives << first % 32);
      }
      if (unsettled != nullptr && below) {
        atomicOr(reinterpret_cast<u32*>(unsettled) + first / 32, below << first % 32);
      }
    }
  }
}

// ---- a layer ----------------------------------------------------------------------------------------------------------

struct Tile {  // what a lane multiplies of a tile
  uint4 weights;
  u32 inputs[4];
};
struct Weights {  // what a lane holds of an output block
  Tile tiles[kHolds ? kTiles : 1];
  float2 bias;
  u32 destinations[2];
  u32 remainder;
};
struct RemainderTiles {  // what a lane multiplies of a record
  Remainder weights;
  u32 inputs[2][4];
};

__device__ inline void fetch(u32 (&of_lane)[4], const u32 (&inputs)[16]) {
  const uint2* const pairs = reinterpret_cast<const uint2*>(inputs) + threadIdx.x % 4;
  const uint2 lower = __ldg(pairs), upper = __ldg(pairs + 4);
  of_lane[0] = lower.x, of_lane[1] = lower.y, of_lane[2] = upper.x, of_lane[3] = upper.y;
}
__device__ inline Tile fetch(const Block& block, int t) {
  Tile tile;
  tile.weights = __ldg(&block.tiles[t][threadIdx.x % 32]);
  fetch(tile.inputs, block.inputs[t]);
  return tile;
}
__device__ inline RemainderTiles fetch(const Record& record) {
  RemainderTiles tiles;
  tiles.weights = {__ldg(&record.weights[threadIdx.x % 4]), __ldg(&record.rows[threadIdx.x % 4])};
  fetch(tiles.inputs[0], record.inputs[0]);
  fetch(tiles.inputs[1], record.inputs[1]);
  return tiles;
}

__device__ inline void fetch(Weights (&weights)[kBlocks], const Block* blocks) {
  const int row = threadIdx.x % 32 / 4;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (int t = 0; kHolds && t < kTiles; ++t) {
      weights[b].tiles[t] = fetch(blocks[b], t);
    }
    weights[b].bias = __ldg(&blocks[b].biases[row]);
    weights[b].destinations[0] = __ldg(&blocks[b].destinations[row]);
    weights[b].destinations[1] = __ldg(&blocks[b].destinations[row + 8]);
#if ONCHIP_REMAINDER
    weights[b].remainder = __ldg(&blocks[b].remainder);
#endif
  }
}

// What a lane reads and writes of a place's word: a half for each group.
__device__ inline void read(u32 (&pairs)[kPairs], const u16* from) {
  if constexpr (kPairs == 4) {
    const uint4 all = __ldcg(reinterpret_cast<const uint4*>(from));
    pairs[0] = all.x, pairs[1] = all.y, pairs[2] = all.z, pairs[3] = all.w;
  } else if constexpr (kPairs == 2) {
    const uint2 both = __ldcg(reinterpret_cast<const uint2*>(from));
    pairs[0] = both.x, pairs[1] = both.y;
  } else {
    pairs[0] = __ldcg(reinterpret_cast<const u32*>(from));
  }
}
__device__ inline void write(u16* to, const u32 (&pairs)[kPairs]) {
  if constexpr (kPairs == 4) {
    *reinterpret_cast<uint4*>(to) = uint4{pairs[0], pairs[1], pairs[2], pairs[3]};
  } else if constexpr (kPairs == 2) {
    *reinterpret_cast<uint2*>(to) = uint2{pairs[0], pairs[1]};
  } else {
    *reinterpret_cast<u32*>(to) = pairs[0];
  }
}

using Sums = float[kGroups][4];          // of 16 rows, mma's C
using Inputs = u32[4][kWords][kPairs];   // of the four neurons of a tile that the lane multiplies
using Outputs = u32[2][kWords][kPairs];  // of a row, of the lane's two columns

// From a tile's features, or its bits, those of the lane's column, which begins with image `first`.
__device__ inline void read_inputs(const Arguments& a, const u64* bits, const u16* source, u32 first,
                                   const u32 (&places)[4], Inputs& inputs) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u64 place = places[i];
    if (bits != nullptr) {
      const u32 of_lane = static_cast<u32>(__ldg(bits + place) >> first);
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        inputs[i][0][p] = ((of_lane >> (2 * p) & 1) | (of_lane >> (2 * p + 1) & 1) << 16) * a.one;
        if constexpr (kWords == 2) {
          inputs[i][kWords - 1][p] = 0;
        }
      }
    } else {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        read(inputs[i][w], source + place * kPlaceHalves + w * kWordHalves + first);
      }
    }
  }
}

__device__ inline void add_products(Sums& sums, const uint4& tile, const Inputs& inputs) {
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const u32 select = g % 2 == 0 ? 0x5410 : 0x7632;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      multiply(sums[g], tile, __byte_perm(inputs[0][w][g / 2], inputs[1][w][g / 2], select),
               __byte_perm(inputs[2][w][g / 2], inputs[3][w][g / 2], select));
    }
  }
}

// A lane of an odd member of a row's four writes columns 2 * member - 1 and 2 * member + 1, its neighbour those before:
// two lanes that write at once then fill a sector.
__device__ inline void write_features(Outputs& out, u16* to, int member, u32 images) {
  const bool is_odd = member & 1;
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const u32 other = __shfl_xor_sync(~0u, is_odd ? out[0][w][p] : out[1][w][p], 1);
      out[0][w][p] = is_odd ? other : out[0][w][p];
      out[1][w][p] = is_odd ? out[1][w][p] : other;
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const u32 image = (2 * member - is_odd + 2 * j) * kGroups;
      if (image < images) {
        write(to + w * kWordHalves + image, out[j][w]);
      }
    }
  }
}

// One item: its output blocks, one after another: their tiles, what is outside of these, and their features. `record`: its
// first; `source`, or `bits`, and `target` are those of the tile, which has so many images.
__device__ inline void run_item(const Arguments& a, const Block* blocks, const Weights (&weights)[kBlocks],
                                const Record* record, u32 images, const u64* bits, const u16* source, u16* target,
                                Extremes& extremes) {
  const int lane = threadIdx.x % 32, member = lane % 4;
  // Image of the lane's column. One that has none reads what the first does, at no cost, and writes nothing.
  const u32 first = lane / 4 * kGroups < images ? lane / 4 * kGroups : 0;
  RemainderTiles next;
  if constexpr (kRemainder) {
    next = fetch(*record);
  }
  Inputs inputs;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    Sums sums = {};
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const Tile tile = kHolds ? weights[b].tiles[kHolds ? t : 0] : fetch(blocks[b], t);
      if (!(tile.inputs[0] & kSameInputs)) {  // the same of all lanes
        read_inputs(a, bits, source, first, tile.inputs, inputs);
      }
      add_products(sums, tile.weights, inputs);
    }
    if constexpr (kRemainder) {
#pragma unroll 1
      for (u32 left = weights[b].remainder; left > 0; --left) {
        Inputs columns[2];
        read_inputs(a, bits, source, first, next.inputs[0], columns[0]);
        read_inputs(a, bits, source, first, next.inputs[1], columns[1]);
        uint4 tiles[2];
        expand(next.weights, tiles);
        next = fetch(*++record);
        add_products(sums, tiles[0], columns[0]);
        add_products(sums, tiles[1], columns[1]);
      }
    }
    const float bias[2] = {weights[b].bias.x + a.shift, weights[b].bias.y + a.shift};
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // rows r and r + 8
      u16* const to = target + static_cast<u64>(weights[b].destinations[half]) * kPlaceHalves;
      Outputs out;
#pragma unroll
      for (int j = 0; j < 2; ++j) {  // columns 2 * member + j
#pragma unroll
        for (int p = 0; p < kPairs; ++p) {
          u32 words[kWords];
          split(fmaf(sums[2 * p][2 * half + j], a.slack, bias[half]),
                fmaf(sums[2 * p + 1][2 * half + j], a.slack, bias[half]), a, words);
#pragma unroll
          for (int w = 0; w < kWords; ++w) {
            out[j][w][p] = words[w];
          }
          extremes.any[j][p] |= words[0];
          if (kSettles) {
            extremes.least[j][p] = lesser_halves(extremes.least[j][p], words[0] | no_row<kHoles>(bias[half]));
          }
        }
      }
      write_features(out, to, member, images);
    }
  }
}

// A barrier of the blocks of threads of a batch group: arrivals are counted, and waited for later.
__device__ inline void add_release(u32* arrivals, u32 many) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(arrivals), "r"(many) : "memory");
}
__device__ inline void arrive(u32* arrivals) {
  __syncthreads();
  if (threadIdx.x == 0) {
    add_release(arrivals, 1);
  }
}
// Polls in vain, most of a second, before a block gives up: from then on it waits for none.
constexpr int kPolls = 1 << 20;
// Whether the tile has ended before. `polls`: in shared memory.
__device__ inline bool wait(const u32* arrivals, u32 times, int& polls, u32* status) {
  u32 seen = 0;
  if (threadIdx.x == 0) {
    int left = polls;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrivals) : "memory");
    } while (seen < times * kSms && --left > 0);
    if (left <= 0) {
      polls = 0;
      *status = 1;
    }
  }
  if (kSettles) {
    return __syncthreads_or(seen >= kSettled);
  }
  __syncthreads();
  return false;
}

// Layers before `layer` after which it is looked whether a tile is settled.
__device__ inline u32 settlings_before(int first_layer, int layer) {
  return (layer + kSettlesEach - 1) / kSettlesEach - (first_layer + kSettlesEach - 1) / kSettlesEach;
}

extern "C" __global__ __launch_bounds__(kThreads, 1) void feed_forward_streamed(const __grid_constant__ Arguments a) {
  __shared__ u32 ended[kMostTiles / 32];  // tiles of a window, as far as this batch group knows
  __shared__ int polls;                   // of the first thread
  if (threadIdx.x == 0) {
    polls = kPolls;
  }
  const int warp = threadIdx.x / 32;
  const u32 batch_group = blockIdx.x / kSms, batch_groups = gridDim.x / kSms, member = blockIdx.x % kSms;
  const u32 count = *a.count, tiles = (count + kImages - 1) / kImages;
  const u32 layers = a.end_layer - a.first_layer;
  const u64 tile_halves = static_cast<u64>(a.places) * kPlaceHalves;
  const int first_item = warp * kSms + member;
  const Block* const own = static_cast<const Block*>(a.records) + static_cast<u64>(first_item) * kBlocks;
  const u64 layer_blocks = static_cast<u64>(a.items) * kBlocks;
  const u32 planned = batch_groups * kAtOnce;  // tiles of a window
  u32 size = 0, before = 0;                    // tiles of this window and of the one before
  for (u32 first_tile = 0; first_tile < tiles; first_tile += size) {
    const u32 rest = tiles - first_tile;
    before = size;
    size = rest >= 2 * planned ? planned : 2 * rest > 3 * planned ? (rest + 1) / 2 : rest;
    u32 left = size;
    if (kSettles) {
      __syncthreads();
      for (u32 i = threadIdx.x; i < kMostTiles / 32; i += kThreads) {
        ended[i] = 0;
      }
      __syncthreads();
    }
    int held = -1;  // the layer whose weights are in registers
    Weights weights[kBlocks];
    const Record* const records = static_cast<const Record*>(a.remainder);
    const Record* first_record = records;
    // Of all windows, modulo batch groups.
    const u32 units_before = first_tile % batch_groups * (layers % batch_groups) % batch_groups;
    for (u32 unit = (batch_group + batch_groups - units_before) % batch_groups; unit < size * layers && left > 0;
         unit += batch_groups) {
      const int layer = a.first_layer + static_cast<int>(unit / size);
      const u32 at = unit % size, tile = first_tile + at;
      if (kSettles && (ended[at / 32] >> at % 32 & 1)) {
        continue;
      }
      const bool is_last = layer + 1 == a.end_layer;
      const bool settles = kSettles && layer % kSettlesEach == 0 && !is_last;
      const Block* const blocks = own + layer * layer_blocks;
      const u32* const begin = a.remainder_begin + static_cast<u64>(layer) * a.items;  // of items
      if (layer != held && first_item < a.items) {
        fetch(weights, blocks);
        if (kRemainder) {
          first_record = records + __ldg(begin + first_item);
        }
      }
      held = layer;
      u32* const arrivals = a.arrivals + tile;
      bool has_ended = false;
      if (layer > a.first_layer) {
        has_ended = wait(arrivals, layer - a.first_layer, polls, a.status);
      } else if (at < before) {
        wait(arrivals - before, layers, polls, a.status);  // which had its place
      }
      if (kSettles && !has_ended && layer > a.first_layer && (layer - 1) % kSettlesEach == 0) {
        Settling* const settling = a.settling + tile * kSettlings;
        const u32 seen = settlings_before(a.first_layer, layer) - 1;
        const u64 alive = __ldcg(&settling[seen % kSettlings].alive);
        has_ended = (alive & __ldcg(&settling[seen % kSettlings].unsettled)) == 0;
        if (member == 0 && threadIdx.x == 0) {
          settling[(seen + 2) % kSettlings] = Settling{0, 0};
          if (has_ended) {
            a.alive[tile] = alive;
            add_release(arrivals, kSettled);
          }
        }
      }
      if (has_ended) {
        --left;
        ended[at / 32] |= 1u << at % 32;  // by all threads: others that end are behind a barrier
        continue;
      }
      u16* const scratch = a.scratch + at * 2 * tile_halves;
      const bool from_bits = layer == a.first_layer && a.bits != nullptr;
      const u16* const source =
          layer == a.first_layer ? a.features + tile * tile_halves : scratch + layer % 2 * tile_halves;
      u16* const target = is_last && a.out_features != nullptr ? a.out_features + tile * tile_halves
                                                               : scratch + (layer + 1) % 2 * tile_halves;
      Extremes extremes = nothing_seen();
      const u32 images = count - tile * kImages;
      const u64* const bits = from_bits ? a.bits + static_cast<u64>(tile) * a.places : nullptr;
      for (int item = first_item; item < a.items; item += kSms * kWarps) {
        if (item != first_item) {
          Weights others[kBlocks];
          const Block* const of_item = blocks + static_cast<u64>(item - first_item) * kBlocks;
          fetch(others, of_item);
          const Record* const record = records + (kRemainder ? __ldg(begin + item) : 0);
          run_item(a, of_item, others, record, images, bits, source, target, extremes);
        } else {
          run_item(a, blocks, weights, first_record, images, bits, source, target, extremes);
        }
      }
      if (is_last) {
        mark(extremes, a.settled, a.alive + tile, nullptr);
      } else if (settles) {
        Settling& to = a.settling[tile * kSettlings + settlings_before(a.first_layer, layer) % kSettlings];
        mark(extremes, a.settled, &to.alive, &to.unsettled);
      }
      arrive(arrivals);
    }
  }
}
