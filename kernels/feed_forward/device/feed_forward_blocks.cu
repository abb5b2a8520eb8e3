// SPDX-License-Identifier: Apache-2.0
// Sparse feed-forward inference with tensor cores, for layers whose rows come in blocks that share columns
// (model/feed_forward/structure/blocks.hpp). Layers follow each other without leaving the SM:
//
//   block of threads   one tile of 8 * ONCHIP_GROUPS images, all of whose features stay in shared memory
//   warp               the output blocks [w * ONCHIP_BLOCKS, ...) of every layer, 16 neurons each
//   output block       ONCHIP_PARTS records of ONCHIP_TILES weight tiles of 16 outputs x 16 inputs, whose neurons may
//                      lie in any places of shared memory; 8 places that differ modulo 8 are read and written without a
//                      bank conflict
//
// A feature is a fp16 word, or two of them, value and residual (22 bits), times a power of two that keeps residuals
// normal:
//   shared memory [buffer][image / 8][word][place][image % 8]; in device memory [image][place][word]
// Weights come from L2, ONCHIP_AHEAD records ahead of their use, in registers. Those outside of the tiles, 32 to
// a record, come two records ahead; an output block has as many as it has, one behind another through all layers.
//
// After the last layer of a launch the images that are alive are appended to the next launch's list, or marked in the
// categories. For bounds of what any order of fp32 sums gives, sums are multiplied by `slack`, just above or below 1,
// before the bias is added, and single words are rounded up or down.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int kGroups = ONCHIP_GROUPS;      // of 8 images
constexpr int kWords = ONCHIP_WORDS;        // of a feature
constexpr int kWarps = ONCHIP_WARPS;        // of a block of threads
constexpr int kBlocks = ONCHIP_BLOCKS;      // output blocks of a warp, in each layer
constexpr int kParts = ONCHIP_PARTS;        // records of an output block, one after another
constexpr int kAhead = ONCHIP_AHEAD;        // records: their weights are in registers or on their way
constexpr int kPlaces = ONCHIP_PLACES;      // of the widest layer, and eight that nobody reads
constexpr int kInputs = ONCHIP_INPUTS;      // neurons of the network's input
constexpr bool kInPlace = ONCHIP_IN_PLACE;  // one buffer of features; else two
constexpr bool kSettles = ONCHIP_SETTLES;   // a tile ends when all features of its images are 0, or all at the clip
constexpr bool kHoles = ONCHIP_HOLES;       // a layer may leave places unwritten, and rows of blocks without a neuron
constexpr int kTiles = ONCHIP_TILES;        // of a record
constexpr bool kRemainder = ONCHIP_REMAINDER;  // there are weights outside of tiles
constexpr int kRing = 4;  // records of the remainder of a warp that are in shared memory or on their way
constexpr int kThreads = 32 * kWarps;
constexpr int kImages = 8 * kGroups;
constexpr int kPlaceBytes = 16;
constexpr int kWordBytes = kPlaces * kPlaceBytes;
constexpr int kGroupBytes = kWords * kWordBytes;
constexpr int kBufferBytes = kGroups * kGroupBytes;
constexpr int kBuffers = kInPlace ? 1 : 2;
constexpr int kUsed = kPlaces - 8;                // places that are read
constexpr int kItems = kUsed * kWords / 2;        // 32-bit words of an image in device memory
constexpr int kBitQuads = (kInputs + 127) / 128;  // 16 bytes of an image's bitmap
constexpr u32 kSameInputs = 0x8000;               // with a place: a tile's inputs are those of the tile before it
constexpr u32 kNowhere = ~0u;
constexpr int kSettlesEach = 4;             // layers
constexpr int kRecords = kBlocks * kParts;  // of a warp, in each layer

static_assert((kParts > 1 ? kParts : kBlocks) % kAhead == 0, "registers belong to the same records in every layer");
static_assert(kImages <= 64 && kPlaces % 8 == 0 && kUsed > 0);

// What a warp reads of an output block, or of a part of it; the last has what is not of tiles.
struct __align__(32) Block {
  uint4 tiles[kTiles][32];  // mma's A, fp16
  float2 biases[8];         // of rows r and r + 8
  u16 destinations[16];     // place of a row's neuron
  u16 inputs[kTiles][16];   // places of a tile's inputs
#if ONCHIP_REMAINDER
  u32 remainder;  // records
#endif
};

#include "fragments.cuh"

using Record = RemainderRecord<u16>;

struct Memory {
  u8 features[kBuffers][kBufferBytes];
  u32 bitmaps[kImages][4 * kBitQuads];
  u8 bits[kGroups][128 * kBitQuads];  // of a neuron: a bit per image
  u64 alive, unsettled;               // a bit per image of the tile
  u32 slots[kImages];                 // where its features go
};
constexpr u32 kRings = (sizeof(Memory) + 127) / 128 * 128;  // behind it: a warp's records of the remainder, each

struct Arguments {
  const Block* blocks;         // [layer][warp][block]
  const Record* remainder;     // [warp][layer][block][record], and kRing more
  const u32* remainder_begin;  // [layer][warp]
  int first_layer, end_layer;  // of this launch
  const u32* bitmaps;          // [image][4 * kBitQuads], or null: features are read
  const u16* input_neurons;    // [place], for bitmaps
  const u32* features;         // [position][kItems]
  const u32* ids;              // [position]: number of the image, or null: the position
  const u32* count;            // positions
  u32* out_features;           // [position][kItems], or null: images alive are marked in categories
  u32* out_ids;
  u32* out_count;
  u32* categories;  // a bit per image
  float clip, slack;
  float shift;   // added to biases
  u32 one;       // an input that is set, fp16
  u32 round_up;  // added to what is cut off to fp16: 0x1fff rounds up, 0 down
  u32 settled;   // fp16: a feature that is not below it is at the clip
};

#include "split.cuh"

#include "block_weights.cuh"

#include "remainder_ring.cuh"

#include "tile_memory.cuh"

// Of the two images per group whose sums a lane holds, over its rows of a layer.
struct Extremes {
  u32 any[kGroups];    // values, or-ed
  u32 least[kGroups];  // smallest value, fp16
};

// One layer, for this warp's output blocks.
__device__ inline void run_layer(const Arguments& a, u32 source, u32 target, bool has_residuals, const Block* next,
                                 Weights (&ahead)[kAhead], const Block* blocks, RemainderRing& remainder,
                                 Extremes& extremes) {
  const int lane = threadIdx.x % 32;
  // Of the rows whose addresses a lane gives: of both words of a group, or of one word of two groups.
  constexpr int kSecond = kWords == 2 ? kWordBytes : kGroupBytes;
  const u32 lane_half = (lane / 16) * kSecond;
  const u32 lane_source = source + lane_half;
  constexpr int kHeld = kInPlace ? kBlocks : 1;
  u32 held[kHeld][kGroups][2 * kWords], held_at[(kHeld + 1) / 2] = {};  // destinations, two in a word
  u32 inputs[kGroups][2 * kWords];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    extremes.any[g] = 0;
    extremes.least[g] = kLargest;
  }
  const auto store = [&](const u32(&words)[kGroups][2 * kWords], u32 at) {
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
  };
  // Adds the products of the next record of the remainder.
  const auto add_remainder = [&](float(&sums)[kGroups][4]) {
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
  };
  const auto add_tiles = [&](const Weights& weights, float(&sums)[kGroups][4]) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      if (!(weights.inputs[t] & kSameInputs)) {  // the same of all lanes
        const u32 at = lane_source + weights.inputs[t] * kPlaceBytes;
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
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        multiply(sums[g], weights.tiles[t], inputs[g][0], inputs[g][1]);
      }
      if (kWords == 2 && has_residuals) {
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          multiply(sums[g], weights.tiles[t], inputs[g][2 * kWords - 2], inputs[g][2 * kWords - 1]);
        }
      }
    }
  };
  const auto fetch_behind = [&](Weights& weights, int record) {
    fetch(weights, record + kAhead < kRecords ? blocks[record + kAhead] : next[record + kAhead - kRecords], lane);
  };
  constexpr int kStep = kParts > 1 ? kAhead : 1;  // records whose registers are known
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    float sums[kGroups][4] = {};
#pragma unroll 1
    for (int part = 0; part + kStep < kParts; part += kStep) {
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        add_tiles(ahead[i], sums);
        fetch_behind(ahead[i], b * kParts + part + i);
      }
    }
#pragma unroll
    for (int i = 0; i + 1 < kStep; ++i) {
      add_tiles(ahead[i], sums);
      fetch_behind(ahead[i], (b + 1) * kParts - kStep + i);
    }
    Weights& weights = ahead[kParts > 1 ? kAhead - 1 : b % kAhead];
    add_tiles(weights, sums);
    if constexpr (kRemainder) {
#pragma unroll 1
      for (u32 left = weights.remainder; left > 0; --left) {  // the same of all lanes
        add_remainder(sums);
      }
    }
    const float2 bias{weights.bias.x + a.shift, weights.bias.y + a.shift};
    const u32 destination = weights.destination;
    fetch_behind(weights, (b + 1) * kParts - 1);
    u32 words[kGroups][2 * kWords];
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
        extremes.least[g] =
            lesser_halves(extremes.least[g], lesser_halves(upper[0] | no_row(bias.x), lower[0] | no_row(bias.y)));
      }
    }
    if constexpr (kInPlace) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
#pragma unroll
        for (int i = 0; i < 2 * kWords; ++i) {
          held[b][g][i] = words[g][i];
        }
      }
      held_at[b / 2] |= destination << (b % 2 * 16);
    } else {
      store(words, target + lane_half + destination * kPlaceBytes);
    }
  }
  if constexpr (kInPlace) {
    __syncthreads();
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      store(held[b], target + lane_half + (held_at[b / 2] >> (b % 2 * 16) & 0xffff) * kPlaceBytes);
    }
  }
}

#include "survivors.cuh"

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
  const Block* const own = a.blocks + threadIdx.x / 32 * kRecords;  // of this warp, in layer 0
  Weights ahead[kAhead];
#pragma unroll
  for (int b = 0; b < kAhead; ++b) {
    fetch(ahead[b], own[static_cast<u64>(a.first_layer) * kLayerBlocks + b], lane);
  }
  Record* const ring = reinterpret_cast<Record*>(smem + kRings) + threadIdx.x / 32 * kRing;
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
                a.bitmaps == nullptr || layer > a.first_layer, next, ahead, blocks, remainder, extremes);
      buffer = target;
      if (kSettles && layer % kSettlesEach == 0 && layer + 1 < a.end_layer) {
        mark(memory, a, extremes);
        __syncthreads();
        const bool settled = (memory.alive & memory.unsettled) == 0;
        __syncthreads();
        if (settled) {
          // The weights that are on their way are of the next layer.
#pragma unroll
          for (int b = 0; b < kAhead; ++b) {
            fetch(ahead[b], own[static_cast<u64>(a.first_layer) * kLayerBlocks + b], lane);
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
