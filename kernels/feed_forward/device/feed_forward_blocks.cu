// SPDX-License-Identifier: Apache-2.0
// Sparse feed-forward inference with tensor cores, for layers whose rows come in blocks that share columns
// (model/feed_forward/structure/blocks.hpp). Layers follow each other without leaving the SM:
//
//   block of threads   one tile of 8 * ONCHIP_GROUPS images, all of whose features stay in shared memory
//   warp               the output blocks [w * ONCHIP_BLOCKS, ...) of every layer, 16 neurons each
//   output block       ONCHIP_PARTS records of ONCHIP_TILES weight tiles of 16 outputs x 16 inputs, whose neurons may
//                      lie in any places of shared memory; 8 places that differ modulo 8 are read and written without a
//                      bank conflict. Weights are fp16; or, of all layers, e4m3 times a power of two, by which `slack` is
//                      divided; or one number, of which nothing is read: then a tile's missing inputs are places of zeros
//
// A feature is a fp16 word, or two of them, value and residual (22 bits), times a power of two that keeps residuals
// normal:
//   shared memory [buffer][image / 8][word][place][image % 8]; in device memory [image][place][word]
// Weights come from L2, ONCHIP_AHEAD records ahead of their use, in registers or, of records without weights, in shared
// memory. Those outside of the tiles, 32 to
// a record, come two records ahead; an output block has as many as it has, one behind another through all layers.
//
// After the last layer of a launch the images that are alive are appended to the next launch's list, or marked in the
// categories. For bounds of what any order of fp32 sums gives, sums are multiplied by `slack`, just above or below 1,
// before the bias is added, and single words are rounded up or down.

#include "kernels/feed_forward/device/blocks_shape.cuh"
#include "kernels/feed_forward/device/fragments.cuh"
#include "kernels/feed_forward/device/remainder_ring.cuh"
#include "kernels/feed_forward/device/tile_memory.cuh"

// Of all groups of images: sums of 16 rows, mma's C; features of 16 neurons, mma's B, or the 16 outputs of a block.
using Sums = float[kGroups][4];
using Features = u32[kGroups][2 * kWords];

// In the place of record `record` of a warp's layer, which has been multiplied, the one kAhead behind it: of this layer's
// blocks, or of the next one's.
__device__ inline void fetch_behind(Weights& weights, Block* slot, int record, const Block* blocks, const Block* next,
                                    int lane) {
  fetch(weights, slot, record + kAhead < kRecords ? blocks[record + kAhead] : next[record + kAhead - kRecords], lane);
}

// Of the rows whose addresses a lane gives: of both words of a group, or of one word of two groups.
constexpr int kLaneHalf = kWords == 2 ? kWordBytes : kGroupBytes;

// `at`: a lane's address in the first group.
__device__ inline void load_groups(Features& inputs, u32 at) {
  if constexpr (kWords == 2) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      load_inputs(inputs[g][0], inputs[g][1], inputs[g][2 * kWords - 2], inputs[g][2 * kWords - 1],
                  at + g * kGroupBytes);
    }
  } else {
#pragma unroll
    for (int g = 0; g + 1 < kGroups; g += 2) {
      load_inputs(inputs[g][0], inputs[g][1], inputs[g + 1][0], inputs[g + 1][1], at + g * kGroupBytes);
    }
    if (kGroups % 2 == 1) {
      load_inputs(inputs[kGroups - 1][0], inputs[kGroups - 1][1], at + (kGroups - 1) * kGroupBytes);
    }
  }
}
__device__ inline void store_groups(const Features& words, u32 at) {
  if constexpr (kWords == 2) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      store_outputs(at + g * kGroupBytes, words[g][0], words[g][1], words[g][2 * kWords - 2],
                    words[g][2 * kWords - 1]);
    }
  } else {
#pragma unroll
    for (int g = 0; g + 1 < kGroups; g += 2) {
      store_outputs(at + g * kGroupBytes, words[g][0], words[g][1], words[g + 1][0], words[g + 1][1]);
    }
    if (kGroups % 2 == 1) {
      store_outputs(at + (kGroups - 1) * kGroupBytes, words[kGroups - 1][0], words[kGroups - 1][1]);
    }
  }
}

// Adds the products of a record's tiles. `inputs`: those of the tile before, which this one's may be, too.
__device__ inline void add_tiles(const Weights& weights, u32 lane_source, bool has_residuals, Features& inputs, Sums& sums) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    if (!(weights.inputs[t] & kSameInputs)) {  // the same of all lanes
      load_groups(inputs, lane_source + weights.inputs[t] * kPlaceBytes);
    }
    const uint4 tile = tile_of(weights, t);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      multiply(sums[g], tile, inputs[g][0], inputs[g][1]);
    }
    if (kWords == 2 && has_residuals) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        multiply(sums[g], tile, inputs[g][2 * kWords - 2], inputs[g][2 * kWords - 1]);
      }
    }
  }
}

// Adds the products of the next record of the remainder.
__device__ inline void add_remainder(RemainderRing& remainder, u32 source, bool has_residuals, Sums& sums) {
  if (!kReadsAhead) {
    remainder.read();
  }
  uint4 tiles[2];
  expand(remainder.weights, tiles);
  const u32 at = source + remainder.place * kPlaceBytes;
  u32 columns[kGroups][kWords][4];  // of both tiles
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      u32(&of)[4] = columns[g][w];
      load_inputs(of[0], of[1], of[2], of[3], at + g * kGroupBytes + w * kWordBytes);
    }
  }
  if (kReadsAhead) {
    remainder.read();
  }
#pragma unroll
  for (int t = 0; t < 2; ++t) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      if (w == 0 || has_residuals) {
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          multiply(sums[g], tiles[t], columns[g][w][2 * t], columns[g][w][2 * t + 1]);
        }
      }
    }
  }
}

// From the sums of an output block, with the biases of rows r and r + 8, to its features.
__device__ inline void make_features(const Arguments& a, const Sums& sums, const float2& bias, Features& words,
                                     Extremes& extremes) {
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    u32 upper[kWords], lower[kWords];  // rows r and r + 8
    split(fmaf(sums[g][0], a.slack, bias.x), fmaf(sums[g][1], a.slack, bias.x), a, upper);
    split(fmaf(sums[g][2], a.slack, bias.y), fmaf(sums[g][3], a.slack, bias.y), a, lower);
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      words[g][2 * w] = upper[w];
      words[g][2 * w + 1] = lower[w];
    }
    extremes.any[g] |= upper[0] | lower[0];
    if (kSettles) {
      extremes.least[g] = lesser_halves(
          extremes.least[g], lesser_halves(upper[0] | no_row<kHoles>(bias.x), lower[0] | no_row<kHoles>(bias.y)));
    }
  }
}

__device__ inline void hold(Features& held, const Features& words) {
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
#pragma unroll
    for (int i = 0; i < 2 * kWords; ++i) {
      held[g][i] = words[g][i];
    }
  }
}

// One layer, for this warp's output blocks, from buffer `source` to buffer `target`: an output block's records, one after
// another, then what is outside of tiles, then its features. In place, these replace the inputs when all warps have read
// them.
__device__ inline void run_layer(const Arguments& a, u32 source, u32 target, bool has_residuals, const Block* next,
                                 Weights (&ahead)[kAhead], Block* slots, const Block* blocks, RemainderRing& remainder,
                                 Extremes& extremes) {
  const int lane = threadIdx.x % 32;
  const u32 lane_half = (lane / 16) * kLaneHalf;
  const u32 lane_source = source + lane_half;
  constexpr int kHeld = kInPlace ? kBlocks : 1;
  Features held[kHeld];
  u32 held_at[(kHeld + 1) / 2] = {};  // destinations, two in a word
  Features inputs;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    extremes.any[g] = 0;
    extremes.least[g] = kLargest;
  }
  constexpr int kStep = kParts > 1 ? kAhead : 1;  // records whose registers are known
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    Sums sums = {};
#pragma unroll 1
    for (int part = 0; part + kStep < kParts; part += kStep) {
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        take(ahead[i], slots + i, lane);
        add_tiles(ahead[i], lane_source, has_residuals, inputs, sums);
        fetch_behind(ahead[i], slots + i, b * kParts + part + i, blocks, next, lane);
      }
    }
#pragma unroll
    for (int i = 0; i + 1 < kStep; ++i) {
      take(ahead[i], slots + i, lane);
      add_tiles(ahead[i], lane_source, has_residuals, inputs, sums);
      fetch_behind(ahead[i], slots + i, (b + 1) * kParts - kStep + i, blocks, next, lane);
    }
    const int last = kParts > 1 ? kAhead - 1 : b % kAhead;
    Weights& weights = ahead[last];
    take(weights, slots + last, lane);
    add_tiles(weights, lane_source, has_residuals, inputs, sums);
    if constexpr (kRemainder) {
#pragma unroll 1
      for (u32 left = weights.remainder; left > 0; --left) {  // the same of all lanes
        add_remainder(remainder, source, has_residuals, sums);
      }
    }
    const float2 bias{weights.bias.x + a.shift, weights.bias.y + a.shift};
    const u32 destination = weights.destination;
    fetch_behind(weights, slots + last, (b + 1) * kParts - 1, blocks, next, lane);
    Features words;
    make_features(a, sums, bias, words, extremes);
    if constexpr (kInPlace) {
      hold(held[b], words);
      held_at[b / 2] |= destination << (b % 2 * 16);
    } else {
      store_groups(words, target + lane_half + destination * kPlaceBytes);
    }
  }
  if constexpr (kInPlace) {
    __syncthreads();
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      store_groups(held[b], target + lane_half + (held_at[b / 2] >> (b % 2 * 16) & 0xffff) * kPlaceBytes);
    }
  }
}

extern "C" __global__ __launch_bounds__(kThreads, 1) void feed_forward_blocks(const __grid_constant__ Arguments a) {
  extern __shared__ __align__(128) u8 smem[];
  Memory& memory = *reinterpret_cast<Memory*>(smem);
  const int lane = threadIdx.x % 32;
  const u32 count = *a.count;
  if (blockIdx.x * kImages >= count) {
    return;
  }
  const auto load = [&](u32 first, int buffer) {
    if (a.bitmaps != nullptr) {
      expand_bitmaps(memory, memory.features[buffer], a);
    } else {
      load_features(memory.features[buffer], a, first, count);
    }
  };
  constexpr int kLayerBlocks = kWarps * kRecords;
  const Block* const own = static_cast<const Block*>(a.records) + threadIdx.x / 32 * kRecords;  // of this warp, in layer 0
  Block* const slots = reinterpret_cast<Block*>(smem + kRings) + threadIdx.x / 32 * kAhead;
  Weights ahead[kAhead];
#pragma unroll
  for (int b = 0; b < kAhead; ++b) {
    fetch(ahead[b], slots + b, own[static_cast<u64>(a.first_layer) * kLayerBlocks + b], lane);
  }
  Record* const ring = reinterpret_cast<Record*>(smem + kRings) + threadIdx.x / 32 * onchip::kRemainderRing;
  RemainderRing remainder;
  if (kRemainder) {
    remainder.begin(ring, a);
  }
  if (threadIdx.x == 0) {
    memory.alive = memory.unsettled = 0;
  }
  if (a.bitmaps != nullptr) {
    copy_bitmaps(memory, a, blockIdx.x * kImages, count);
  }
  if (kHoles || kWords == 2) {  // residuals of a bitmap's features are read, but not multiplied
    for (u32 i = threadIdx.x; i < sizeof memory.features / sizeof(uint4); i += kThreads) {
      reinterpret_cast<uint4*>(memory.features)[i] = uint4{0, 0, 0, 0};
    }
    __syncthreads();
  }
  int buffer = 0;  // with the tile's features
  load(blockIdx.x * kImages, buffer);
  __syncthreads();

  for (u32 first = blockIdx.x * kImages; first < count; first += gridDim.x * kImages) {
    const u32 next_first = first + gridDim.x * kImages;
    const bool more = next_first < count;
    if (a.bitmaps != nullptr && more) {
      copy_bitmaps(memory, a, next_first, count);
    }
    Extremes extremes;
    for (int layer = a.first_layer; layer < a.end_layer; ++layer) {
      const int target = kInPlace ? 0 : 1 - buffer;
      const Block* blocks = own + static_cast<u64>(layer) * kLayerBlocks;
      const Block* next = own + static_cast<u64>(layer + 1 < a.end_layer ? layer + 1 : a.first_layer) * kLayerBlocks;
      run_layer(a, shared_address(memory.features[buffer]), shared_address(memory.features[target]),
                a.bitmaps == nullptr || layer > a.first_layer, next, ahead, slots, blocks, remainder,
                extremes);
      buffer = target;
      if (kSettles && layer % onchip::kSettlesEach == 0 && layer + 1 < a.end_layer) {
        mark(memory, a, extremes);
        __syncthreads();
        const bool settled = (memory.alive & memory.unsettled) == 0;
        __syncthreads();
        if (settled) {
          // The weights that are on their way are of the next layer.
          if (kCopies) {
            asm volatile("cp.async.wait_all;" ::: "memory");
          }
#pragma unroll
          for (int b = 0; b < kAhead; ++b) {
            fetch(ahead[b], slots + b, own[static_cast<u64>(a.first_layer) * kLayerBlocks + b], lane);
          }
          break;
        }
        if (threadIdx.x == 0) {
          memory.alive = memory.unsettled = 0;
        }
      }
      __syncthreads();
    }
    if (kRemainder) {
      remainder.begin(ring, a);
    }
    mark(memory, a, extremes);
    __syncthreads();
    take_slots(memory, a, first, count);
    if (!kInPlace && more) {
      load(next_first, 1 - buffer);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      memory.alive = memory.unsettled = 0;
    }
    if (a.out_features != nullptr) {
      store_features(memory, memory.features[buffer], a);
    }
    if (kInPlace && more) {
      __syncthreads();
      load(next_first, buffer);
    }
    __syncthreads();
    buffer = kInPlace ? 0 : 1 - buffer;
  }
}
