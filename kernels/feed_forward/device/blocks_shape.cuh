// SPDX-License-Identifier: Apache-2.0
// Sizes of the kernel of blocks, what a warp reads of a layer, and a tile of images in shared memory.
#pragma once

#include "kernels/feed_forward/device/arguments.hpp"
#include "kernels/feed_forward/device/fragments.cuh"
#include "kernels/runtime/integers.cuh"
#include "model/feed_forward/plan/blocks_constants.hpp"

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
constexpr int kRecords = kBlocks * kParts;  // of a warp, in each layer

static_assert((kParts > 1 ? kParts : kBlocks) % kAhead == 0, "registers belong to the same records in every layer");
static_assert(kImages <= 64 && kPlaces % 8 == 0 && kUsed > 0);

using Block = OutputBlock<u16, kTiles>;
using Record = RemainderRecord<u16>;

struct Memory {
  u8 features[kBuffers][kBufferBytes];
  u32 bitmaps[kImages][4 * kBitQuads];
  u8 bits[kGroups][128 * kBitQuads];  // of a neuron: a bit per image
  u64 alive, unsettled;               // a bit per image of the tile
  u32 slots[kImages];                 // where its features go
};
constexpr u32 kRings = (sizeof(Memory) + 127) / 128 * 128;  // behind it: a warp's records of the remainder, each

using Arguments = onchip::BlocksArguments;

struct Weights {  // what a lane holds of a record
  uint4 tiles[kTiles];
  float2 bias;
  u32 destination, inputs[kTiles];
  u32 remainder;
};

__device__ inline uint4 load_once(const uint4* pointer) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(pointer));
  return value;
}

__device__ inline void fetch(Weights& weights, const Block& block, int lane) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    weights.tiles[t] = load_once(&block.tiles[t][lane]);
    weights.inputs[t] = __ldg(&block.inputs[t][lane % 16]);
  }
  weights.bias = __ldg(&block.biases[lane / 4]);
  weights.destination = __ldg(&block.destinations[lane % 16]);
#if ONCHIP_REMAINDER
  weights.remainder = __ldg(&block.remainder);
#endif
}
