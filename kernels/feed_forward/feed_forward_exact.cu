// SPDX-License-Identifier: Apache-2.0
// Sparse feed-forward inference of a few images in fp32, in the order of the reference
// (model/feed_forward/reference.hpp): a row's weights with inputs ascending, each product rounded, then the sum; then
// the bias, ReLU and clip.
//   block of threads   one image, all layers; features in two buffers of shared memory
//   thread             rows threadIdx.x, threadIdx.x + blockDim.x, ... of a layer
// Also what finds these images: those of a list that a bitmap lacks.
#include <cuda_fp16.h>

typedef unsigned int u32;
typedef unsigned long long u64;

struct Arguments {
  const u32* weights;    // column | fp16 << 16
  const u32* row_begin;  // [rows of all layers + 1]
  const float* biases;   // [rows of all layers]
  const u32* layer_row;  // [layers + 1]
  int layers, inputs;
  u32 buffer;          // floats of one of the two
  const u32* bitmaps;  // [image][words]
  int words;
  const u32* ids;  // [*count]: images
  const u32* count;
  u32* categories;  // a bit per image
  float clip;
};

extern "C" __global__ void feed_forward_exact(const __grid_constant__ Arguments a) {
  extern __shared__ float features[];
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
      bool lives = false;
      for (u32 row = a.layer_row[layer] + threadIdx.x; row < a.layer_row[layer + 1]; row += blockDim.x) {
        float sum = 0;
        const u32 end = a.row_begin[row + 1];
#pragma unroll 8
        for (u32 i = a.row_begin[row]; i < end; ++i) {
          const u32 weight = __ldg(a.weights + i);
          sum = __fadd_rn(sum, __fmul_rn(__half2float(__ushort_as_half(weight >> 16)), from[weight & 0xffff]));
        }
        sum = __fadd_rn(sum, a.biases[row]);
        const float feature = sum < 0 ? 0 : sum > a.clip ? a.clip : sum;
        to[row - a.layer_row[layer]] = feature;
        lives |= feature != 0;
      }
      any = __syncthreads_or(lives);
    }
    if (any && threadIdx.x == 0) {
      atomicOr(a.categories + image / 32, 1u << image % 32);
    }
    __syncthreads();
  }
}

// The images of a list that are in `wanted`, if there is such a bitmap, and not in `known`: to another list.
extern "C" __global__ void feed_forward_open(const u32* ids, const u32* count, const u32* wanted, const u32* known,
                                             u32* open, u32* open_count) {
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < *count; i += gridDim.x * blockDim.x) {
    const u32 id = ids[i], word = id / 32, bit = 1u << id % 32;
    if ((wanted == nullptr || (wanted[word] & bit)) && !(known[word] & bit)) {
      open[atomicAdd(open_count, 1)] = id;
    }
  }
}
