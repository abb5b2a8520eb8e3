// SPDX-License-Identifier: Apache-2.0
// Sparse feed-forward inference with tensor cores, for layers whose rows come in blocks that share columns
// (model/feed_forward/structure.hpp). Layers follow each other without leaving the SM:
//
//   block of threads   one tile of 8 * ONCHIP_GROUPS images, all of whose features stay in shared memory
//   warp               the output blocks [w * ONCHIP_BLOCKS, ...) of every layer, 16 neurons each
//   output block       ONCHIP_TILES weight tiles of 16 outputs x 16 inputs, whose neurons may lie in any places of
//                      shared memory; 8 places that differ modulo 8 are read and written without a bank conflict
//
// A feature is a fp16 word, or two of them, value and residual (22 bits), times a power of two that keeps residuals
// normal:
//   shared memory [buffer][image / 8][word][place][image % 8]; in device memory [image][place][word]
// Weights come from L2, ONCHIP_AHEAD output blocks ahead of their use, in registers.
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
constexpr int kAhead = ONCHIP_AHEAD;        // of these: their weights are in registers or on their way
constexpr int kPlaces = ONCHIP_PLACES;      // of the widest layer, and eight that nobody reads
constexpr int kInputs = ONCHIP_INPUTS;      // neurons of the network's input
constexpr bool kInPlace = ONCHIP_IN_PLACE;  // one buffer of features; else two
constexpr bool kSettles = ONCHIP_SETTLES;   // a tile ends when all features of its images are 0, or all at the clip
constexpr int kTiles = ONCHIP_TILES;        // of an output block
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
constexpr int kSettlesEach = 4;  // layers

static_assert(kBlocks % kAhead == 0, "registers belong to the same output blocks in every layer");
static_assert(kImages <= 64 && kPlaces % 8 == 0 && kUsed > 0);

// What a warp reads of an output block.
struct __align__(32) Block {
  uint4 tiles[kTiles][32];  // mma's A, fp16
  float2 biases[8];         // of rows r and r + 8
  u16 destinations[16];     // place of a row's neuron
  u16 inputs[kTiles][16];   // places of a tile's inputs
};

struct Memory {
  u8 features[kBuffers][kBufferBytes];
  u32 bitmaps[kImages][4 * kBitQuads];
  u8 bits[kGroups][128 * kBitQuads];  // of a neuron: a bit per image
  u64 alive, unsettled;               // a bit per image of the tile
  u32 slots[kImages];                 // where its features go
};

struct Arguments {
  const Block* blocks;         // [layer][warp][block]
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

__device__ inline u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// Features of 16 neurons of 8 images, as mma's B: of both words, or of two groups of images.
__device__ inline void load_inputs(u32& a, u32& b, u32& c, u32& d, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(address)
               : "memory");
}
__device__ inline void load_inputs(u32& a, u32& b, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(a), "=r"(b)
               : "r"(address)
               : "memory");
}

__device__ inline void store_outputs(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}
__device__ inline void store_outputs(u32 address, u32 a, u32 b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(a), "r"(b) : "memory");
}

__device__ inline void multiply(float (&sum)[4], const uint4& a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// ReLU, as fp16: cut off, or to the nearest.
__device__ inline u32 positive_cut(float x, float y) {
  u32 packed;
  asm("cvt.rz.relu.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(y), "f"(x));
  return packed;
}
__device__ inline u32 positive_nearest(float x, float y) {
  u32 packed;
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(y), "f"(x));
  return packed;
}

__device__ inline float2 as_floats(u32 halves) {
  float2 floats;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
      : "=f"(floats.x), "=f"(floats.y)
      : "r"(halves));
  return floats;
}

__device__ inline u32 lesser_halves(u32 x, u32 y) {
  u32 lesser;
  asm("min.f16x2 %0, %1, %2;" : "=r"(lesser) : "r"(x), "r"(y));
  return lesser;
}

__device__ inline float lesser(float x, float y) {  // NaN if x is
  float lesser;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(lesser) : "f"(x), "f"(y));
  return lesser;
}

// ReLU and clip of two features. Values are cut off, so that residuals are not negative either.
__device__ inline void split(float x, float y, const Arguments& a, u32 (&words)[kWords]) {
  x = lesser(x, a.clip);
  y = lesser(y, a.clip);
  if constexpr (kWords == 1) {
    words[0] =
        positive_cut(__int_as_float(__float_as_int(x) + a.round_up), __int_as_float(__float_as_int(y) + a.round_up));
  } else {
    words[0] = positive_cut(x, y);
    const float2 value = as_floats(words[0]);
    words[kWords - 1] = positive_nearest(x - value.x, y - value.y);
  }
}

struct Weights {  // what a lane holds of an output block
  uint4 tiles[kTiles];
  float2 bias;
  u32 destination, inputs[kTiles];
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
}

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

// One layer, for this warp's output blocks.
__device__ inline void run_layer(const Arguments& a, u32 source, u32 target, bool has_residuals, const Block* next,
                                 Weights (&ahead)[kAhead], const Block* blocks, Extremes& extremes) {
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
    extremes.least[g] = 0x7bff7bff;
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
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    Weights& weights = ahead[b % kAhead];
    float sums[kGroups][4] = {};
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
    const float2 bias{weights.bias.x + a.shift, weights.bias.y + a.shift};
    const u32 destination = weights.destination;
    fetch(weights, b + kAhead < kBlocks ? blocks[b + kAhead] : next[b + kAhead - kBlocks], lane);
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
        extremes.least[g] = lesser_halves(extremes.least[g], lesser_halves(upper[0], lower[0]));
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
  constexpr int kLayerBlocks = kWarps * kBlocks;
  const Block* const own = a.blocks + threadIdx.x / 32 * kBlocks;  // of this warp, in layer 0
  Weights ahead[kAhead];
#pragma unroll
  for (int b = 0; b < kAhead; ++b) {
    fetch(ahead[b], own[static_cast<u64>(a.first_layer) * kLayerBlocks + b], lane);
  }
  if (threadIdx.x == 0) {
    memory.alive = memory.unsettled = 0;
  }
  if (a.bitmaps != nullptr) {
    copy_bitmaps(memory, a, blockIdx.x * kImages, count);
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
                a.bitmaps == nullptr || layer > a.first_layer, next, ahead, blocks, extremes);
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
