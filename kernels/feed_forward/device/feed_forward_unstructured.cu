// SPDX-License-Identifier: Apache-2.0
// Sparse feed-forward inference of any pattern in fp32, layer after layer without leaving the SM
// (model/feed_forward/plan/unstructured_layout.hpp has what it reads):
//
//   block of threads   one tile of ONCHIP_IMAGES images, all of whose features stay in shared memory, [place][image]
//   warp               every ONCHIP_WARPS-th item of a layer, of 32 / kRowLanes rows
//   lane               up to four images of one row; in each step it reads one input of the row
//
// A product is rounded, then the sum, in the order of the steps. After the last layer of a launch the images that are
// alive are appended to the next launch's list, or marked in the categories.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int kImages = ONCHIP_IMAGES;
constexpr int kWarps = ONCHIP_WARPS;        // of a block of threads
constexpr int kHeld = ONCHIP_HELD;          // items of a warp whose outputs wait in registers; 0: two buffers
constexpr int kPlaces = ONCHIP_PLACES;      // of the widest layer, and zeros
constexpr int kWeight = ONCHIP_WEIGHT;      // 0: fp16, 1: bf16, beside a place of 16 bits; 2: fp32
constexpr int kThreads = 32 * kWarps;
constexpr int kLaneImages = kImages < 4 ? kImages : 4;
constexpr int kRowLanes = kImages / kLaneImages;
constexpr int kRows = 32 / kRowLanes;       // of an item
constexpr int kZeros = 32 / kImages;        // places behind the last neuron's
constexpr int kBuffers = kHeld > 0 ? 1 : 2;
constexpr u32 kNowhere = ~0u;

static_assert(kImages <= 32 && (kImages & (kImages - 1)) == 0);

struct Memory {
  float features[kBuffers][kPlaces][kImages];
  u32 slots[kImages];  // where an image's features go
  u32 alive;           // a bit per image
};

struct Arguments {
  const uint4* entries;        // [step / kSteps][row of the item]
  const u32* item_begin;       // first entry of an item, over kRows
  const u32* layer_item;       // [layers + 1]
  const u32* destinations;     // [item][kRows]: a place, or kNowhere
  const float* biases;         // [item][kRows]
  int layers, inputs, outputs;  // neurons of the first layer's input, of the last layer
  u32 may_end;                 // dead images stay dead
  float clip;
  const u32* bitmaps;          // [image][words], or
  int words;
  const u64* list_begin;       // [image + 1], or
  const u32* list_neuron;
  const float* list_value;
  const float* features;       // [position][inputs]
  const u32* ids;              // [position]: number of the image, or null: the position
  const u32* count;            // positions
  float* out_features;         // [position][outputs], or null: images alive are marked in categories
  u32* out_ids;
  u32* out_count;
  u32* categories;             // a bit per image
};

struct Values {  // of a lane's images
  float of[kLaneImages];
};

__device__ inline Values read(const float* from) {
  Values values;
  if constexpr (kLaneImages == 4) {
    const float4 all = *reinterpret_cast<const float4*>(from);
    values.of[0] = all.x, values.of[1] = all.y, values.of[2] = all.z, values.of[3] = all.w;
  } else if constexpr (kLaneImages == 2) {
    const float2 both = *reinterpret_cast<const float2*>(from);
    values.of[0] = both.x, values.of[1] = both.y;
  } else {
    values.of[0] = *from;
  }
  return values;
}

__device__ inline void write(float* to, const Values& values) {
  if constexpr (kLaneImages == 4) {
    *reinterpret_cast<float4*>(to) = float4{values.of[0], values.of[1], values.of[2], values.of[3]};
  } else if constexpr (kLaneImages == 2) {
    *reinterpret_cast<float2*>(to) = float2{values.of[0], values.of[1]};
  } else {
    *to = values.of[0];
  }
}

__device__ inline float weight_of(u32 bits) {  // of an entry of 32 bits
  if constexpr (kWeight == 1) {
    return __int_as_float(bits & 0xffff0000u);
  } else {
    float value;
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, high;\n}" : "=f"(value) : "r"(bits));
    return value;
  }
}

__device__ inline void add(Values& sums, const float* features, u32 place, float weight) {
  const Values inputs = read(features + place * kImages);
#pragma unroll
  for (int i = 0; i < kLaneImages; ++i) {
    sums.of[i] = __fadd_rn(sums.of[i], __fmul_rn(weight, inputs.of[i]));
  }
}

__device__ inline void add(Values& sums, const float* features, const uint4& entry) {
  if constexpr (kWeight == 2) {
    add(sums, features, entry.x, __int_as_float(entry.y));
    add(sums, features, entry.z, __int_as_float(entry.w));
  } else {
    add(sums, features, entry.x & 0xffff, weight_of(entry.x));
    add(sums, features, entry.y & 0xffff, weight_of(entry.y));
    add(sums, features, entry.z & 0xffff, weight_of(entry.z));
    add(sums, features, entry.w & 0xffff, weight_of(entry.w));
  }
}

// The rows of an item: their features after ReLU and clip. `source` is at the lane's first image.
__device__ inline Values run_item(const Arguments& a, u32 item, const float* source, u32& any) {
  const int row = threadIdx.x % 32 / kRowLanes;
  const u32 begin = __ldg(a.item_begin + item), end = __ldg(a.item_begin + item + 1);
  const uint4* entries = a.entries + static_cast<u64>(begin) * kRows + row;
  Values sums = {};
  uint4 next = begin < end ? __ldg(entries) : uint4{};
  for (u32 i = begin; i < end; ++i) {
    const uint4 entry = next;
    entries += kRows;
    if (i + 1 < end) {
      next = __ldg(entries);
    }
    add(sums, source, entry);
  }
  const float bias = __ldg(a.biases + item * kRows + row);
#pragma unroll
  for (int i = 0; i < kLaneImages; ++i) {
    const float sum = __fadd_rn(sums.of[i], bias);
    sums.of[i] = sum < 0 ? 0 : sum > a.clip ? a.clip : sum;
    any |= (sums.of[i] != 0 ? 1u : 0u) << i;
  }
  return sums;
}

// Features of a tile into the first buffer; images beyond the last are zero.
__device__ inline void load_tile(Memory& memory, const Arguments& a, u32 first, u32 count) {
  float(*const features)[kImages] = memory.features[0];
  if (a.features != nullptr) {
    for (int i = threadIdx.x; i < a.inputs * kRowLanes; i += kThreads) {
      const int neuron = i / kRowLanes, image = i % kRowLanes * kLaneImages;
      Values values;
#pragma unroll
      for (int k = 0; k < kLaneImages; ++k) {
        const u32 at = first + image + k;
        values.of[k] = at < count ? __ldcs(a.features + static_cast<u64>(at) * a.inputs + neuron) : 0;
      }
      write(&features[neuron][image], values);
    }
  } else if (a.bitmaps != nullptr) {
    for (int i = threadIdx.x; i < (a.inputs + 31) / 32 * kRowLanes; i += kThreads) {
      const int word = i / kRowLanes, image = i % kRowLanes * kLaneImages;
      u32 bits[kLaneImages];
#pragma unroll
      for (int k = 0; k < kLaneImages; ++k) {
        const u32 at = first + image + k;
        const u32 id = at < count && a.ids != nullptr ? __ldg(a.ids + at) : at;
        bits[k] = at < count ? __ldg(a.bitmaps + static_cast<u64>(id) * a.words + word) : 0;
      }
      const int last = a.inputs - 32 * word < 32 ? a.inputs - 32 * word : 32;
      for (int bit = 0; bit < last; ++bit) {
        Values values;
#pragma unroll
        for (int k = 0; k < kLaneImages; ++k) {
          values.of[k] = bits[k] >> bit & 1 ? 1.0f : 0.0f;
        }
        write(&features[32 * word + bit][image], values);
      }
    }
  } else {
    for (int i = threadIdx.x; i < a.inputs * kRowLanes; i += kThreads) {
      write(&features[i / kRowLanes][i % kRowLanes * kLaneImages], Values{});
    }
    __syncthreads();
    for (int image = threadIdx.x / 32; image < kImages && first + image < count; image += kWarps) {
      const u32 at = first + image, id = a.ids != nullptr ? __ldg(a.ids + at) : at;
      const u64 end = __ldg(a.list_begin + id + 1);
      for (u64 i = __ldg(a.list_begin + id) + threadIdx.x % 32; i < end; i += 32) {
        features[__ldg(a.list_neuron + i)][image] = __ldg(a.list_value + i);
      }
    }
  }
}

// Where the features of the images that are alive go, by the first warp; marks them where there is no next launch.
__device__ inline void take_slots(Memory& memory, const Arguments& a, u32 first, u32 count) {
  const u32 lane = threadIdx.x;
  const bool lives = lane < kImages && first + lane < count && (memory.alive >> lane & 1);
  const u32 all = __ballot_sync(~0u, lives);
  const u32 id = lives && a.ids != nullptr ? __ldg(a.ids + first + lane) : first + lane;
  u32 at = 0;
  if (a.out_features != nullptr && lane == 0 && all) {
    at = atomicAdd(a.out_count, __popc(all));
  }
  at = __shfl_sync(~0u, at, 0) + __popc(all & ((1u << lane) - 1));
  if (lane < kImages) {
    memory.slots[lane] = lives ? at : kNowhere;
  }
  if (lives && a.out_features != nullptr) {
    a.out_ids[at] = id;
  } else if (lives) {
    atomicOr(a.categories + id / 32, 1u << id % 32);
  }
}

__device__ inline void store_tile(const Memory& memory, const Arguments& a, int buffer) {
  for (int i = threadIdx.x; i < a.outputs * kRowLanes; i += kThreads) {
    const int image = i / a.outputs * kLaneImages, neuron = i % a.outputs;
    const Values values = read(&memory.features[buffer][neuron][image]);
#pragma unroll
    for (int k = 0; k < kLaneImages; ++k) {
      const u32 slot = memory.slots[image + k];
      if (slot != kNowhere) {
        a.out_features[static_cast<u64>(slot) * a.outputs + neuron] = values.of[k];
      }
    }
  }
}

extern "C" __global__ __launch_bounds__(kThreads, 1) void feed_forward_unstructured(const __grid_constant__ Arguments a) {
  extern __shared__ __align__(128) u8 smem[];
  Memory& memory = *reinterpret_cast<Memory*>(smem);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int lane_image = lane % kRowLanes * kLaneImages, row = lane / kRowLanes;
  const u32 count = *a.count;
  for (int i = threadIdx.x; i < kBuffers * kZeros * kImages; i += kThreads) {
    const int buffer = i / (kZeros * kImages), place = kPlaces - kZeros + i / kImages % kZeros;
    memory.features[buffer][place][i % kImages] = 0;
  }
  for (u32 first = blockIdx.x * kImages; first < count; first += gridDim.x * kImages) {
    load_tile(memory, a, first, count);
    if (threadIdx.x == 0) {
      memory.alive = 0;
    }
    __syncthreads();
    int buffer = 0;
    u32 any = 0;
    for (int layer = 0; layer < a.layers; ++layer) {
      const u32 begin = __ldg(a.layer_item + layer) + warp, end = __ldg(a.layer_item + layer + 1);
      const float* const source = &memory.features[buffer][0][lane_image];
      float* const target = &memory.features[kBuffers == 2 ? 1 - buffer : 0][0][lane_image];
      any = 0;
      const auto store = [&](u32 item, const Values& values) {
        const u32 place = __ldg(a.destinations + item * kRows + row);
        if (place != kNowhere) {
          write(target + place * kImages, values);
        }
      };
      if constexpr (kHeld > 0) {
        Values held[kHeld > 0 ? kHeld : 1];
#pragma unroll
        for (int h = 0; h < kHeld; ++h) {
          if (begin + h * kWarps < end) {
            held[h] = run_item(a, begin + h * kWarps, source, any);
          }
        }
        __syncthreads();
#pragma unroll
        for (int h = 0; h < kHeld; ++h) {
          if (begin + h * kWarps < end) {
            store(begin + h * kWarps, held[h]);
          }
        }
      } else {
        for (u32 item = begin; item < end; item += kWarps) {
          store(item, run_item(a, item, source, any));
        }
        buffer = 1 - buffer;
      }
      if (__syncthreads_or(any) == 0 && a.may_end) {
        break;
      }
    }
    // A lane's images, over all rows.
    if (any) {
      atomicOr(&memory.alive, any << lane_image);
    }
    __syncthreads();
    if (warp == 0) {
      take_slots(memory, a, first, count);
    }
    __syncthreads();
    if (a.out_features != nullptr && memory.alive != 0) {
      store_tile(memory, a, buffer);
    }
    __syncthreads();
  }
}
