// SPDX-License-Identifier: Apache-2.0
// Sparse feed-forward inference of a few images in fp32, in the order of the reference
// (model/feed_forward/reference.hpp): a row's weights with inputs ascending, each product rounded, then the sum; then
// the bias, ReLU and clip.
//   cluster of SMs     one image, all layers; features in two buffers, of the shared memory of each of its SMs; more of
//                      them where features are in device memory, whose gathers an SM has only so many of
//   warp               slices of 32 rows, a lane each; the weights of the next slice are asked for, also of the next layer
// Also what finds these images: those of a list that a bitmap lacks.

#include "kernels/feed_forward/device/arguments.hpp"
#include "kernels/runtime/integers.cuh"

__device__ inline float from_half(u32 bits) {
  float value;
  asm("{\n.reg .b16 half;\ncvt.u16.u32 half, %1;\ncvt.f32.f16 %0, half;\n}" : "=f"(value) : "r"(bits));
  return value;
}

using Arguments = onchip::ExactArguments;
using onchip::kExactCluster, onchip::kExactThreads, onchip::kWideCluster, onchip::kWideThreads;

constexpr int kAhead = 8;  // fours of a row's weights that are asked for at once

struct Range {  // of a slice's fours
  u32 slice, begin, end;
};
struct Slice {
  Range range;
  uint4 fours[kAhead];
  float bias;
};

__device__ inline uint4 load_four(const Arguments& a, u32 four, u32 end) {
  return four < end ? __ldg(static_cast<const uint4*>(a.weights) + four * 32 + threadIdx.x % 32) : uint4{~0u, ~0u, ~0u, ~0u};
}
// The slices of a warp, `stride` apart, layer after layer; of each layer one at least, which may not exist.
struct Place {
  int layer;
  u32 slice;  // of the layer
};
__device__ inline bool exists(const Arguments& a, const Place& place) {
  return place.layer < a.layers && __ldg(a.layer_slice + place.layer) + place.slice < __ldg(a.layer_slice + place.layer + 1);
}
__device__ inline Place behind(const Arguments& a, const Place& place, u32 stride) {
  const Place more{place.layer, place.slice + stride};
  return exists(a, more) ? more : Place{place.layer + 1, place.slice % stride};
}
__device__ inline Range range_of(const Arguments& a, const Place& place) {
  if (!exists(a, place)) {
    return {~0u, 0, 0};
  }
  const u32 slice = __ldg(a.layer_slice + place.layer) + place.slice;
  return {slice, __ldg(a.slice_begin + slice), __ldg(a.slice_begin + slice + 1)};
}
__device__ inline void load(Slice& to, const Arguments& a, const Range& range) {
  to.range = range;
  to.bias = range.slice != ~0u ? __ldg(a.biases + range.slice * 32 + threadIdx.x % 32) : 0;
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    to.fours[i] = load_four(a, range.begin + i, range.end);
  }
}

__device__ inline void wait_for_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Into the shared memory of each block of threads of the cluster.
template <int kCluster>
__device__ inline void store_everywhere(void* at, u32 value) {
  const u32 here = static_cast<u32>(__cvta_generic_to_shared(at));
#pragma unroll
  for (int rank = 0; rank < kCluster; ++rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(value) : "memory");
  }
}

// Adds four products. Without a branch, so that features are read side by side; where there is no weight, -0 leaves every
// sum as it is.
template <bool kInShared>
__device__ __forceinline__ void add_products(float& sum, const float* from, const uint4& four) {
  const auto read = [](const float* at) { return kInShared ? *at : __ldcg(at); };
  const u32 weights[4] = {four.x, four.y, four.z, four.w};
  float products[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool is_there = weights[i] != ~0u;
    const float product = __fmul_rn(from_half(weights[i] >> 16), read(from + (is_there ? weights[i] & 0xffff : 0)));
    products[i] = is_there ? product : -0.0f;
  }
#pragma unroll
  for (const float product : products) {
    sum = __fadd_rn(sum, product);
  }
}

template <bool kInShared, int kCluster, int kThreads>
__device__ void run(const Arguments& a, float* features) {
  __shared__ u32 lives[3];  // of the layer, of the next one, and one that becomes zero
  constexpr u32 kStride = kCluster * kThreads / 32;
  const u32 lane = threadIdx.x % 32, rank = blockIdx.x % kCluster, own = threadIdx.x / 32 * kCluster + rank;
  for (u32 position = blockIdx.x / kCluster; position < *a.count; position += gridDim.x / kCluster) {
    Slice next;
    Place of_next{0, own};
    load(next, a, range_of(a, of_next));
    Place of_following = behind(a, of_next, kStride);
    Range following = range_of(a, of_following);
    const u32 image = a.ids[position];
    const u32* bitmap = a.bitmaps + static_cast<u64>(image) * a.words;
    for (int i = threadIdx.x; i < a.inputs; i += kThreads) {
      features[i] = bitmap[i / 32] >> (i % 32) & 1 ? 1.0f : 0.0f;
    }
    if (threadIdx.x < 3) {
      lives[threadIdx.x] = 0;
    }
    wait_for_cluster();
    bool any = true;
    for (int layer = 0; layer < a.layers && any; ++layer) {
      const float* const from = features + layer % 2 * a.buffer;
      float* const to = features + (layer + 1) % 2 * a.buffer;
      const u32 first = __ldg(a.layer_slice + layer), rows = __ldg(a.rows + layer);
      bool alive = false;
      // The rest of a slice whose weights are asked for.
      const auto finish = [&](const Slice& slice) {
        float sum = 0;
#pragma unroll
        for (const uint4& four : slice.fours) {
          add_products<kInShared>(sum, from, four);
        }
        for (u32 four = slice.range.begin + kAhead; four < slice.range.end; ++four) {
          add_products<kInShared>(sum, from, load_four(a, four, slice.range.end));
        }
        sum = __fadd_rn(sum, slice.bias);
        const float feature = sum < 0 ? 0 : sum > a.clip ? a.clip : sum;
        const u32 row = (slice.range.slice - first) * 32 + lane;
        if (row < rows) {
          if constexpr (kInShared) {
            store_everywhere<kCluster>(to + row, __float_as_uint(feature));
          } else {
            to[row] = feature;
          }
          alive |= feature != 0;
        }
      };
      do {
        const Slice now = next;
        load(next, a, following);
        of_next = of_following;
        of_following = behind(a, of_next, kStride);
        following = range_of(a, of_following);
        if (now.range.slice != ~0u) {
          finish(now);
        }
      } while (of_next.layer == layer);
      if (__any_sync(~0u, alive) && lane == 0) {
        store_everywhere<kCluster>(&lives[layer % 3], 1u);
      }
      if (threadIdx.x == 0) {
        lives[(layer + 1) % 3] = 0;
      }
      wait_for_cluster();
      any = lives[layer % 3] != 0;
    }
    if (any && rank == 0 && threadIdx.x == 0) {
      atomicOr(a.categories + image / 32, 1u << image % 32);
    }
  }
}

extern "C" __global__ __cluster_dims__(kExactCluster, 1, 1) __launch_bounds__(kExactThreads) void feed_forward_exact(
    const __grid_constant__ Arguments a) {
  extern __shared__ float shared_features[];
  run<true, kExactCluster, kExactThreads>(a, shared_features);
}
extern "C" __global__ __cluster_dims__(kWideCluster, 1, 1) __launch_bounds__(kWideThreads) void feed_forward_exact_wide(
    const __grid_constant__ Arguments a) {
  run<false, kWideCluster, kWideThreads>(a, a.scratch + static_cast<u64>(blockIdx.x / kWideCluster) * 2 * a.buffer);
}

extern "C" __global__ void feed_forward_undecided(const __grid_constant__ onchip::UndecidedArguments a) {
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < *a.count; i += gridDim.x * blockDim.x) {
    const u32 id = a.ids == nullptr ? i : a.ids[i], word = id / 32, bit = 1u << id % 32;
    if ((a.wanted == nullptr || (a.wanted[word] & bit)) && !(a.known[word] & bit)) {
      a.undecided[atomicAdd(a.undecided_count, 1)] = id;
    }
  }
}
