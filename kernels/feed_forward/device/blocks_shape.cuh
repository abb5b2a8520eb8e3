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
constexpr int kWeightBytes = ONCHIP_WEIGHT_BYTES;  // fp16, e4m3, or 0: all weights are the number ONCHIP_WEIGHT, fp16
constexpr int kVectors = (kTiles * kWeightBytes + 1) / 2;  // of weights of a lane
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

using Block = OutputBlock<u16, kTiles, kVectors>;
using Record = RemainderRecord<u16>;

struct Memory {
  u8 features[kBuffers][kBufferBytes];
  u32 bitmaps[kImages][4 * kBitQuads];
  u8 bits[kGroups][128 * kBitQuads];  // of a neuron: a bit per image
  u64 alive, unsettled;               // a bit per image of the tile
  u32 slots[kImages];                 // where its features go
};
constexpr u32 kRings = (sizeof(Memory) + 127) / 128 * 128;  // behind it: a warp's records of the remainder, or copies

// Records without weights are copied to shared memory, kAhead of a warp's: a wait names how many may be on their way.
constexpr bool kCopies = kWeightBytes == 0;
static_assert(!(kCopies && kRemainder), "waits count copies of one kind");

using Arguments = onchip::BlocksArguments;

struct Weights {  // what a lane holds of a record
  uint4 vectors[kVectors > 0 ? kVectors : 1];
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

// Copies of a record go to its slot in shared memory, others to registers.
template <typename OfBlock>
__device__ inline void fetch(Weights& weights, Block* slot, const OfBlock& block, int lane) {
  if constexpr (kCopies) {
    copy_record(slot, reinterpret_cast<const uint4*>(&block) + lane);
  } else {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      if (t < kVectors) {
        weights.vectors[t] = load_once(&block.tiles[t][lane]);
      }
      weights.inputs[t] = __ldg(&block.inputs[t][lane % 16]);
    }
    weights.bias = __ldg(&block.biases[lane / 4]);
    weights.destination = __ldg(&block.destinations[lane % 16]);
#if ONCHIP_REMAINDER
    weights.remainder = __ldg(&block.remainder);
#endif
  }
}

// The oldest copy, whose slot may be written again behind it.
__device__ inline void take(Weights& weights, const Block* slot, int lane) {
  if constexpr (kCopies) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kAhead - 1) : "memory");
    __syncwarp();
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      weights.inputs[t] = slot->inputs[t][lane % 16];
    }
    weights.bias = slot->biases[lane / 4];
    weights.destination = slot->destinations[lane % 16];
    __syncwarp();
  }
}

// Of tile t, mma's A.
__device__ inline uint4 tile_of(const Weights& weights, int t) {
  if constexpr (kWeightBytes == 2) {
    return weights.vectors[t];
  } else if constexpr (kWeightBytes == 1) {
    const uint4& pair = weights.vectors[t / 2];
    return t % 2 == 0 ? expand(pair.x, pair.y) : expand(pair.z, pair.w);
  } else {
    constexpr u32 kBoth = ONCHIP_WEIGHT * 0x10001u;
    return {kBoth, kBoth, kBoth, kBoth};
  }
}
