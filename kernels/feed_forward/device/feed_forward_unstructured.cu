// SPDX-License-Identifier: Apache-2.0
// Sparse feed-forward inference of any pattern in fp32, layer after layer without leaving the SM
// (model/feed_forward/plan/unstructured_layout.hpp has what it reads):
//
//   block of threads   one tile of ONCHIP_IMAGES images, all of whose features stay in shared memory, [place][image]
//   warp               every ONCHIP_WARPS-th item of a layer, of 32 / kRowLanes rows; its entries, layer after layer,
//                      are one stream, read kAhead of 16 bytes ahead
//   lane               up to eight images of one row; in each step it reads one input of the row
//
// A product is rounded, then the sum, in the order of the steps. After the last layer of a launch the images that are
// alive are appended to the next launch's list, or marked in the categories.

#include "kernels/feed_forward/device/entry_stream.cuh"
#include "kernels/feed_forward/device/unstructured_shape.cuh"

// The rows of the stream's next item: their features after ReLU and clip, if there are such.
__device__ inline Values run_item(const Arguments& a, Stream& stream, const Source& source, bool is_linear, u32& any) {
  const int row = threadIdx.x % 32 / kRowLanes;
  const float bias = __ldg(a.biases + stream.item * kRows + row);
  const u32 halves = stream.halves;
  stream.halves = __ldg(a.halves + ++stream.item);
  Values sums = {};
#pragma unroll 1
  for (u32 i = 0; i < halves / 2; ++i) {
    Half second;
    second.ask(source, stream.entry.z, stream.entry.w);
    stream.take();
    stream.first.add_to(sums);
    stream.ask_first(source);
    second.add_to(sums);
  }
  if (halves % 2 == 1) {
    stream.take();
    stream.first.add_to(sums);
    stream.ask_first(source);
  }
#pragma unroll
  for (int r = 0; r < kReads; ++r) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const float sum = __fadd_rn(sums.of[r].of[i], bias);
      sums.of[r].of[i] = is_linear ? sum : sum < 0 ? 0 : sum > a.clip ? a.clip : sum;
      any |= (sums.of[r].of[i] != 0 ? 1u : 0u) << (r * kWords + i);
    }
  }
  return sums;
}

// Features of a tile into the first buffer; images beyond the last are zero.
__device__ inline void load_tile(Memory& memory, const Arguments& a, u32 first, u32 count) {
  float(*const features)[kImages] = memory.features[0];
  if (a.features != nullptr) {
    for (int i = threadIdx.x; i < a.inputs * kQuads; i += kThreads) {
      const int neuron = i / kQuads, image = i % kQuads * kWords;
      Words words;
#pragma unroll
      for (int k = 0; k < kWords; ++k) {
        const u32 at = first + image + k;
        words.of[k] = at < count ? __ldcs(a.features + static_cast<u64>(at) * a.inputs + neuron) : 0;
      }
      write(features, neuron, image, words);
    }
  } else if (a.bitmaps != nullptr) {
    for (int i = threadIdx.x; i < (a.inputs + 31) / 32 * kQuads; i += kThreads) {
      const int word = i / kQuads, image = i % kQuads * kWords;
      u32 bits[kWords];
#pragma unroll
      for (int k = 0; k < kWords; ++k) {
        const u32 at = first + image + k;
        const u32 id = at < count && a.ids != nullptr ? __ldg(a.ids + at) : at;
        bits[k] = at < count ? __ldg(a.bitmaps + static_cast<u64>(id) * a.words + word) : 0;
      }
      const int last = a.inputs - 32 * word < 32 ? a.inputs - 32 * word : 32;
      for (int bit = 0; bit < last; ++bit) {
        Words words;
#pragma unroll
        for (int k = 0; k < kWords; ++k) {
          words.of[k] = bits[k] >> bit & 1 ? 1.0f : 0.0f;
        }
        write(features, 32 * word + bit, image, words);
      }
    }
  } else {
    for (int i = threadIdx.x; i < a.inputs * kQuads; i += kThreads) {
      write(features, i / kQuads, i % kQuads * kWords, Words{});
    }
    __syncthreads();
    for (int image = threadIdx.x / 32; image < kImages && first + image < count; image += kWarps) {
      const u32 at = first + image, id = a.ids != nullptr ? __ldg(a.ids + at) : at;
      const u64 end = __ldg(a.list_begin + id + 1);
      for (u64 i = __ldg(a.list_begin + id) + threadIdx.x % 32; i < end; i += 32) {
        write(features, __ldg(a.list_neuron + i), image, __ldg(a.list_value + i));
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
  for (int i = threadIdx.x; i < a.outputs * kQuads; i += kThreads) {
    const int image = i / a.outputs * kWords, neuron = i % a.outputs;
    const Words words = read(&memory.features[buffer][neuron][image]);
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      const u32 slot = memory.slots[image + k];
      if (slot != kNowhere) {
        a.out_features[static_cast<u64>(slot) * a.outputs + neuron] = words.of[k];
      }
    }
  }
}

__device__ __forceinline__ void write_values(float (*target)[kImages], u32 place, const Values& values) {
  if (place != kNowhere) {
#pragma unroll
    for (int r = 0; r < kReads; ++r) {
      write(target, place, image_of(r), values.of[r]);
    }
  }
}

extern "C" __global__ __launch_bounds__(kThreads,
                                        1) void feed_forward_unstructured(const __grid_constant__ Arguments a) {
  extern __shared__ __align__(128) u8 smem[];
  Memory& memory = *reinterpret_cast<Memory*>(smem);
  const int warp = threadIdx.x / 32, row = threadIdx.x % 32 / kRowLanes;
  const u32 count = *a.count;
  // Places that are always zero; and a warp asks for what the next layer reads before all of that is written.
  for (int i = threadIdx.x; i < kBuffers * kPlaces * kImages; i += kThreads) {
    reinterpret_cast<float*>(memory.features)[i] = 0;
  }
  __syncthreads();
  for (u32 first = blockIdx.x * kImages; first < count; first += gridDim.x * kImages) {
    Stream stream(a, memory);
    load_tile(memory, a, first, count);
    if (threadIdx.x == 0) {
      memory.alive = 0;
    }
    __syncthreads();
    int buffer = 0;
    u32 any = 0;
    for (int layer = 0; layer < a.layers; ++layer) {
      const u32 of_layer = __ldg(a.layer_items + layer), items = kLinear ? of_layer & ~onchip::kLinearLayer : of_layer;
      const bool is_linear = kLinear && (of_layer & onchip::kLinearLayer);
      const u32* const destinations = a.destinations + stream.item * kRows + row;
      float(*const target)[kImages] = memory.features[kBuffers == 2 ? 1 - buffer : 0];
      Source source;
#pragma unroll
      for (int r = 0; r < kReads; ++r) {
        source.of[r] = shared_address(&memory.features[buffer][0][image_of(r)]);
      }
      any = 0;
      stream.ask_first(source);
      if constexpr (kHeld > 0) {
        Values held[kHeld > 0 ? kHeld : 1];
        u32 place[kHeld > 0 ? kHeld : 1];
#pragma unroll
        for (int h = 0; h < kHeld; ++h) {
          if (h < items) {
            held[h] = run_item(a, stream, source, is_linear, any);
          }
        }
#pragma unroll
        for (int h = 0; h < kHeld; ++h) {
          place[h] = h < items ? __ldg(destinations + h * kRows) : kNowhere;
        }
        __syncthreads();
#pragma unroll
        for (int h = 0; h < kHeld; ++h) {
          write_values(target, place[h], held[h]);
        }
      } else {
        for (u32 item = 0; item < items; ++item) {
          const u32 place = __ldg(destinations + item * kRows);
          write_values(target, place, run_item(a, stream, source, is_linear, any));
        }
        buffer = 1 - buffer;
      }
      if (__syncthreads_or(any) == 0 && a.may_end) {
        break;
      }
    }
    stream.end();
#pragma unroll
    for (int r = 0; r < kReads; ++r) {  // a lane's images, over all rows
      if (const u32 alive = any >> (r * kWords) & ((1u << kWords) - 1); alive) {
        atomicOr(&memory.alive, alive << image_of(r));
      }
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
