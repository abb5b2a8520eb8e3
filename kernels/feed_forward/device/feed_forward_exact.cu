// SPDX-License-Identifier: Apache-2.0
// Sparse feed-forward inference of a few images in fp32, in the order of the reference
// (model/feed_forward/reference.hpp): a row's weights with inputs ascending, each product rounded, then the sum; then
// the bias, ReLU and clip.
//   block of threads   one image, all layers; features in two buffers of shared memory
//   warp               slices of 32 rows, a lane each
// Also what finds these images: those of a list that a bitmap lacks.
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ inline float from_half(u32 bits) {
  float value;
  asm("{\n.reg .b16 half;\ncvt.u16.u32 half, %1;\ncvt.f32.f16 %0, half;\n}" : "=f"(value) : "r"(bits));
  return value;
}

struct Arguments {
  const uint4* weights;    // column | fp16 << 16, [longest row / 4][32 rows]; ~0: none
  const u32* slice_begin;  // [slices of all layers + 1]
  const u32* layer_slice;  // [layers + 1]
  const float* biases;     // [slices of all layers, 32]
  const u32* rows;         // [layers]
  int layers, inputs;
  u32 buffer;          // floats of one of the two
  float* scratch;      // [blocks of threads][2][buffer]; null: both are in shared memory
  const u32* bitmaps;  // [image][words]
  int words;
  const u32* ids;  // [*count]: images
  const u32* count;
  u32* categories;  // a bit per image
  float clip;
};

constexpr int kThreads = 1024;
constexpr int kAhead = 8;  // fours of a row's weights that are asked for at once

extern "C" __global__ __launch_bounds__(kThreads) void feed_forward_exact(const __grid_constant__ Arguments a) {
  extern __shared__ float shared_features[];
  float* const features = a.scratch != nullptr ? a.scratch + static_cast<u64>(blockIdx.x) * 2 * a.buffer : shared_features;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (u32 position = blockIdx.x; position < *a.count; position += gridDim.x) {
    const u32 image = a.ids[position];
    const u32* bitmap = a.bitmaps + static_cast<u64>(image) * a.words;
    for (int i = threadIdx.x; i < a.inputs; i += blockDim.x) {
      features[i] = bitmap[i / 32] >> (i % 32) & 1 ? 1.0f : 0.0f;
    }
    __syncthreads();
    bool any = true;
    for (int layer = 0; layer < a.layers && any; ++layer) {
      const float* from = features + layer % 2 * a.buffer;
      float* to = features + (layer + 1) % 2 * a.buffer;
      const u32 first = a.layer_slice[layer], end = a.layer_slice[layer + 1], rows = a.rows[layer];
      bool lives = false;
      for (u32 slice = first + warp; slice < end; slice += kThreads / 32) {
        const u32 end_four = a.slice_begin[slice + 1];
        const float bias = a.biases[slice * 32 + lane];
        float sum = 0;
        for (u32 four = a.slice_begin[slice]; four < end_four; four += kAhead) {
          uint4 weights[kAhead];
#pragma unroll
          for (int i = 0; i < kAhead; ++i) {
            weights[i] = four + i < end_four ? __ldg(a.weights + (four + i) * 32 + lane) : uint4{~0u, ~0u, ~0u, ~0u};
          }
#pragma unroll
          for (int i = 0; i < kAhead; ++i) {
            const u32 of_four[4] = {weights[i].x, weights[i].y, weights[i].z, weights[i].w};
#pragma unroll
            for (const u32 weight : of_four) {
              if (weight != ~0u) {
                sum = __fadd_rn(sum, __fmul_rn(from_half(weight >> 16), from[weight & 0xffff]));
              }
            }
          }
        }
        sum = __fadd_rn(sum, bias);
        const float feature = sum < 0 ? 0 : sum > a.clip ? a.clip : sum;
        const u32 row = (slice - first) * 32 + lane;
        if (row < rows) {
          to[row] = feature;
          lives |= feature != 0;
        }
      }
      any = __syncthreads_or(lives);
    }
    if (any && threadIdx.x == 0) {
      atomicOr(a.categories + image / 32, 1u << image % 32);
    }
    __syncthreads();
  }
}

// The images of a list, or all *count without one, that are in `wanted`, if there is such a bitmap, and not in `known`:
// to another list.
struct OpenArguments {
  const u32 *ids, *count, *wanted, *known;
  u32 *open, *open_count;
};

extern "C" __global__ void feed_forward_open(const __grid_constant__ OpenArguments a) {
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < *a.count; i += gridDim.x * blockDim.x) {
    const u32 id = a.ids == nullptr ? i : a.ids[i], word = id / 32, bit = 1u << id % 32;
    if ((a.wanted == nullptr || (a.wanted[word] & bit)) && !(a.known[word] & bit)) {
      a.open[atomicAdd(a.open_count, 1)] = id;
    }
  }
}
