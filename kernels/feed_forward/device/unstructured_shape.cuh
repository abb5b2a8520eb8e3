// SPDX-License-Identifier: Apache-2.0
// Sizes of the unstructured kernel, and its tile of images in shared memory.
#pragma once

#include "kernels/feed_forward/device/arguments.hpp"
#include "kernels/runtime/integers.cuh"
#include "model/feed_forward/plan/blocks_constants.hpp"

constexpr int kImages = ONCHIP_IMAGES;
constexpr int kWarps = ONCHIP_WARPS;    // of a block of threads
constexpr int kHeld = ONCHIP_HELD;      // items of a warp whose outputs wait in registers; 0: two buffers
constexpr int kAhead = ONCHIP_AHEAD;    // entries
constexpr int kPlaces = ONCHIP_PLACES;  // of the widest layer, zeros, second ones
constexpr int kZero = ONCHIP_ZEROS;     // the first that is always zero
constexpr int kCopies = ONCHIP_COPIES;  // neurons that have a second place
constexpr int kWeight = ONCHIP_WEIGHT;  // 0: fp16, 1: bf16, beside a place of 16 bits; 2: fp32
constexpr bool kLinear = ONCHIP_LINEAR;  // some layer is
constexpr int kThreads = 32 * kWarps;
constexpr int kWords = kImages < 4 ? kImages : 4;  // that a lane reads at once
constexpr int kReads = kImages < 8 ? 1 : 2;        // of a step
constexpr int kLaneImages = kReads * kWords;
constexpr int kRowLanes = kImages / kLaneImages;
constexpr int kQuads = kImages / kWords;  // reads of a place
constexpr int kRows = 32 / kRowLanes;     // of an item
constexpr int kZeros = 32 / kImages;      // places that are zero; rows of an access
constexpr int kBuffers = kHeld > 0 ? 1 : 2;
constexpr int kSlots = kAhead + 1;            // of a warp's entries in shared memory: those ahead, and what is read
constexpr int kSteps = kWeight == 2 ? 1 : 2;  // of half an entry
constexpr u32 kNowhere = ~0u;

static_assert(kImages <= 32 && (kImages & (kImages - 1)) == 0);
static_assert((kSlots & (kSlots - 1)) == 0);

struct Memory {
  float features[kBuffers][kPlaces][kImages];
  uint4 entries[kWarps][kSlots][kRows];
  u32 slots[kImages];  // where an image's features go
  u32 alive;           // a bit per image
};

using Arguments = onchip::UnstructuredArguments;

struct Words {
  float of[kWords];
};

struct Values {  // of a lane's images
  Words of[kReads];
};

__device__ inline Words read(const float* from) {
  Words words;
  if constexpr (kWords == 4) {
    const float4 all = *reinterpret_cast<const float4*>(from);
    words.of[0] = all.x, words.of[1] = all.y, words.of[2] = all.z, words.of[3] = all.w;
  } else if constexpr (kWords == 2) {
    const float2 both = *reinterpret_cast<const float2*>(from);
    words.of[0] = both.x, words.of[1] = both.y;
  } else {
    words.of[0] = *from;
  }
  return words;
}

__device__ inline u32 shared_address(const void* of) {
  return static_cast<u32>(__cvta_generic_to_shared(of));
}

// `first` + place * the bytes of a place; written out, or else the compiler takes four instructions for two addresses.
__device__ inline u32 address_of(u32 first, u32 place) {
  u32 address;
  asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(address) : "r"(place), "n"(sizeof(float) * kImages), "r"(first));
  return address;
}

__device__ inline Words read_at(u32 address) {
  Words words;
  if constexpr (kWords == 4) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(words.of[0]), "=f"(words.of[1]), "=f"(words.of[2]), "=f"(words.of[3])
                 : "r"(address));
  } else if constexpr (kWords == 2) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(words.of[0]), "=f"(words.of[1]) : "r"(address));
  } else {
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(words.of[0]) : "r"(address));
  }
  return words;
}

__device__ inline void write(float* to, const Words& words) {
  if constexpr (kWords == 4) {
    *reinterpret_cast<float4*>(to) = float4{words.of[0], words.of[1], words.of[2], words.of[3]};
  } else if constexpr (kWords == 2) {
    *reinterpret_cast<float2*>(to) = float2{words.of[0], words.of[1]};
  } else {
    *to = words.of[0];
  }
}

__device__ inline void write(float* to, float value) {
  *to = value;
}

// Blocks of kZeros places with second places, before this one (PlaceCopies of
// model/feed_forward/structure/read_steps.hpp).
__device__ inline u32 copies_before(u32 block) {
  return block * (kCopies / kZeros) / (kZero / kZeros);
}

template <typename Value>
__device__ inline void write(float (*features)[kImages], u32 place, int image, const Value& value) {
  write(&features[place][image], value);
  if constexpr (kCopies > 0) {
    const u32 block = place / kZeros, before = copies_before(block);
    if (copies_before(block + 1) > before) {
      write(&features[kZero + (1 + before) * kZeros + (place + 1) % kZeros][image], value);
    }
  }
}
