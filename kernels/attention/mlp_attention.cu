// SPDX-License-Identifier: Apache-2.0
// Scores of MLP attention (additive: Bahdanau, Cho and Bengio, arXiv 1409.0473), and their gradients:
//
//   score[b, t, s] = sum over h of v[h] y, where y = tanh(q[b, t, h] + k[b, s, h])
//   dq[b, t, h] = v[h] * sum over s of d (1 - y y), where d is the gradient of the score
//   dk[b, s, h] = v[h] * sum over t of d (1 - y y)
//   dv[h]       = sum over b, t, s of d y
//
// y is computed where it is used, and [batch, queries, keys, hidden] is never stored. With e(x) = exp(-2 x),
// tanh(q + k) = 2 / (1 + e(q) e(k)) - 1: e is computed once for a tile, and then a pair takes one reciprocal. In
// forward two columns share one: v0 / a + v1 / b = (v0 b + v1 a) / (a b). Where an element of a tile is larger than
// kMostRaised, these products could overflow, and tanh is computed of the sums. Both ways it is good to 2e-6.
//
//   forward    A block has a tile of queries and keys of a sample, and goes over the columns in chunks. A lane has one
//              key, a warp up to 8 queries, which all its lanes read from shared memory at once.
//   backward   A block has 32 columns of a sample, and goes over all keys for a tile of queries. A lane has one column,
//              a warp up to 8 queries, with their gradients, in registers. A key's gradient is added up over the warps,
//              then, in `partials`, over tiles of queries.
//
// Every sum has one order: the same bits come out every time.

#include "kernels/attention/arguments.hpp"
#include "kernels/persistent/types.cuh"

constexpr Precision kPrecision = static_cast<Precision>(ONCHIP_PRECISION);
static_assert(kPrecision == kFp16 || kPrecision == kBf16 || kPrecision == kFp32,
              "elements are floats of 16 or 32 bits");
#include "kernels/persistent/activation.cuh"
#include "kernels/persistent/elements.cuh"

using Arguments = onchip::AttentionArguments;

constexpr int kWarps = onchip::kAttentionWarps, kThreads = 32 * kWarps;
constexpr int kBlocksOfSm = 4;  // of backward, by registers
constexpr int kQueries = onchip::kQueriesOfWarp, kMostQueries = kQueries * kWarps;
constexpr int kKeys = onchip::kAttentionKeys, kColumns = onchip::kAttentionColumns;
static_assert(kKeys == 32 && kColumns == 32, "a lane of forward has a key, and one of backward a column");
constexpr int kWordElements = kPrecision == kFp32 ? 4 : 8;
constexpr int kChunk = 64;            // columns of forward in shared memory
constexpr int kStride = kChunk + 4;   // 16 bytes of rows that follow each other lie in other banks
constexpr float kMostRaised = 10.0f;  // a b is at most (1 + exp(40))^2

__device__ __forceinline__ int parts_of(int count, int size) {
  return (count + size - 1) / size;
}

__device__ __forceinline__ bool is_far(float x) {
  return !(fabsf(x) <= kMostRaised);  // of NaN, too
}

__device__ __forceinline__ float raised(float x) {
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(-2.88539008f * x));
  return e;
}

__device__ __forceinline__ float reciprocal(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

__device__ __forceinline__ float load(const void* from, long long index) {
  const u32 bits = load_element(from, index);
  return element(&bits, 0);
}

__device__ __forceinline__ float4& four(float* at) {
  return *reinterpret_cast<float4*>(at);
}
__device__ __forceinline__ const float4& four(const float* at) {
  return *reinterpret_cast<const float4*>(at);
}

// ---- forward --------------------------------------------------------------------------------------------------------

template <int kAtOnce>
__device__ __forceinline__ bool stage_by(const Arguments& a, const void* from, long long row, int there, int column,
                                         float* to, int rows) {
  constexpr int kOfRow = kChunk / kAtOnce;
  bool far = false;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kOfRow; i += kThreads) {
    const int r = i / kOfRow, c = i % kOfRow * kAtOnce;
    float* const place = to + r * kStride + c;
    const bool is_there = r < there && column + c < a.hidden;
    const long long index = (row + r) * a.hidden + column + c;
    if constexpr (kAtOnce == 1) {
      *place = is_there ? load(from, index) : 0.0f;
      far |= is_far(*place);
    } else {
      const Word word = is_there ? static_cast<const Word*>(from)[index / kAtOnce] : Word{};
      const u32 packed[4]{word.x, word.y, word.z, word.w};
#pragma unroll
      for (int e = 0; e < kAtOnce; e += 4) {
        const float4 x{element(packed, e), element(packed, e + 1), element(packed, e + 2), element(packed, e + 3)};
        far |= is_far(x.x) || is_far(x.y) || is_far(x.z) || is_far(x.w);
        four(place + e) = x;
      }
    }
  }
  return far;
}

// `there` rows from `row` on, columns from `column` on, into the first of [rows][kStride]; zeros beyond. Whether one is
// far.
__device__ __forceinline__ bool stage(const Arguments& a, const void* from, long long row, int there, int column,
                                      float* to, int rows) {
  return a.has_whole_words ? stage_by<kWordElements>(a, from, row, there, column, to, rows)
                           : stage_by<1>(a, from, row, there, column, to, rows);
}

__device__ __forceinline__ void raise(float* rows, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count * (kChunk / 4); i += kThreads) {
    float4& x = four(rows + i / (kChunk / 4) * kStride + i % (kChunk / 4) * 4);
    x = {raised(x.x), raised(x.y), raised(x.z), raised(x.w)};
  }
}

// v0 / (1 + e0) + v1 / (1 + e1)
template <bool kIsFar>
__device__ __forceinline__ float two_terms(float q0, float q1, float k0, float k1, float v0, float v1) {
  if constexpr (kIsFar) {
    return fmaf(v0, quick_sigmoid(2.0f * (q0 + k0)), v1 * quick_sigmoid(2.0f * (q1 + k1)));
  } else {
    const float a = fmaf(q0, k0, 1.0f), b = fmaf(q1, k1, 1.0f);
    return fmaf(v0, b, v1 * a) * reciprocal(a * b);
  }
}

// To the sums of v / (1 + e) of a lane's key and kRows queries, and to that of v: every parts-th 4 columns from `part`
// on.
template <int kRows, bool kIsFar>
__device__ __forceinline__ void add_scores(const float* queries, const float* key, const float* v, int part, int parts,
                                           float (&sums)[kQueries], float& v_sum) {
  for (int h = 4 * part; h < kChunk; h += 4 * parts) {
    const float4 k = four(key + h), w = four(v + h);
    v_sum += (w.x + w.y) + (w.z + w.w);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float4 q = four(queries + i * kStride + h);
      sums[i] += two_terms<kIsFar>(q.x, q.y, k.x, k.y, w.x, w.y);
      sums[i] += two_terms<kIsFar>(q.z, q.w, k.z, k.w, w.z, w.w);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) forward(const Arguments a) {
  __shared__ __align__(16) float queries[kMostQueries * kStride], keys[kKeys * kStride], v[kChunk];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int group = warp % a.query_groups, part = warp / a.query_groups, parts = kWarps / a.query_groups;
  const int tile = kQueries * a.query_groups;
  const int key_tiles = parts_of(a.key_count, kKeys), query_tiles = parts_of(a.query_count, tile);
  const int block = static_cast<int>(blockIdx.x);
  const int first_key = block % key_tiles * kKeys, first_query = block / key_tiles % query_tiles * tile;
  const long long sample = block / key_tiles / query_tiles;
  const long long query_row = sample * a.query_count + first_query, key_row = sample * a.key_count + first_key;
  const int queries_there = a.query_count - first_query, rows = queries_there - group * kQueries;

  float sums[kQueries]{}, v_sum = 0;
  for (int column = 0; column < a.hidden; column += kChunk) {
    __syncthreads();
    bool far = stage(a, a.queries, query_row, queries_there, column, queries, tile);
    far |= stage(a, a.keys, key_row, a.key_count - first_key, column, keys, kKeys);
    if (threadIdx.x < kChunk) {
      const int h = column + static_cast<int>(threadIdx.x);
      v[threadIdx.x] = h < a.hidden ? load(a.v, h) : 0.0f;
    }
    const bool any_far = __syncthreads_or(far);
    if (!any_far) {
      raise(queries, tile);
      raise(keys, kKeys);
      __syncthreads();
    }
    const float *const own = queries + group * kQueries * kStride, *const key = keys + lane * kStride;
    if (rows <= 0) {
      continue;
    }
    if (any_far) {
      add_scores<kQueries, true>(own, key, v, part, parts, sums, v_sum);
    } else if (rows > kQueries / 2) {
      add_scores<kQueries, false>(own, key, v, part, parts, sums, v_sum);
    } else if (rows > 1) {
      add_scores<kQueries / 2, false>(own, key, v, part, parts, sums, v_sum);
    } else {
      add_scores<1, false>(own, key, v, part, parts, sums, v_sum);
    }
  }

  __syncthreads();
  float* const partial = queries;  // [kWarps][kQueries][kKeys]
  static_assert(kWarps * kQueries * kKeys <= kMostQueries * kStride, "sums have room where queries were");
#pragma unroll
  for (int i = 0; i < kQueries; ++i) {
    partial[(warp * kQueries + i) * kKeys + lane] = fmaf(2.0f, sums[i], -v_sum);
  }
  __syncthreads();
  for (int t = warp; t < min(tile, queries_there); t += kWarps) {
    float sum = 0;
    for (int p = 0; p < parts; ++p) {
      sum += partial[((t / kQueries + p * a.query_groups) * kQueries + t % kQueries) * kKeys + lane];
    }
    if (first_key + lane < a.key_count) {
      store_element(a.scores, (query_row + t) * a.key_count + first_key + lane, to_bits(sum));
    }
  }
}

// ---- backward -------------------------------------------------------------------------------------------------------

template <bool kIsFar>
__device__ __forceinline__ float tanh_of(float q, float k) {
  return fmaf(2.0f, kIsFar ? quick_sigmoid(2.0f * (q + k)) : reciprocal(fmaf(q, k, 1.0f)), -1.0f);
}

constexpr int kGradientStride = kMostQueries + 4;

// What a lane's column has of the keys part, part + parts, ... of a tile of `count`, and kRows queries.
//   gradients  [kKeys][kGradientStride]: of scores, from the warp's first query on
//   key_sums   [kKeys][kColumns]: becomes that of these queries
template <int kRows, bool kIsFar>
__device__ __forceinline__ void add_gradients(const float (&q)[kQueries], const float* keys, const float* gradients,
                                              int part, int parts, int count, float (&q_sums)[kQueries], float& v_sum,
                                              float* key_sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int s = part; s < count; s += parts) {
    const float k = keys[s * kColumns + lane];
    float d[kQueries], key_sum = 0;
    four(d) = four(gradients + s * kGradientStride);
    if constexpr (kRows > 4) {
      four(d + 4) = four(gradients + s * kGradientStride + 4);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float y = tanh_of<kIsFar>(q[i], k), slope = fmaf(-y, y, 1.0f);
      q_sums[i] = fmaf(d[i], slope, q_sums[i]);
      key_sum = fmaf(d[i], slope, key_sum);
      v_sum = fmaf(d[i], y, v_sum);
    }
    key_sums[s * kColumns + lane] = key_sum;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksOfSm) backward(const Arguments a) {
  __shared__ __align__(16) float keys[kKeys * kColumns], gradients[kKeys * kGradientStride];
  __shared__ float sums[kWarps * kKeys * kColumns];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int group = warp % a.query_groups, part = warp / a.query_groups, parts = kWarps / a.query_groups;
  const int tile = kQueries * a.query_groups, tiles = parts_of(a.query_count, tile);
  const int slices = parts_of(a.hidden, kColumns), block = static_cast<int>(blockIdx.x);
  const int column = block % slices * kColumns + lane, split = block / slices / a.batch;
  const long long sample = block / slices % a.batch, key_row = sample * a.key_count;
  const bool is_there = column < a.hidden;
  const auto load_if = [&](const void* from, long long row, bool is_row) {
    return is_there && is_row ? load(from, row * a.hidden + column) : 0.0f;
  };
  const float v = load_if(a.v, 0, true);
  float* const key_sums = a.partials + static_cast<long long>(a.splits) * a.batch * a.hidden +
                          split * static_cast<long long>(a.batch) * a.key_count * a.hidden;

  float v_sum = 0;
  for (int of_tiles = split; of_tiles < tiles; of_tiles += a.splits) {
    const int first_query = of_tiles * tile, rows = a.query_count - first_query - group * kQueries;
    const long long query_row = sample * a.query_count + first_query;
    float q[kQueries], q_sums[kQueries]{};
    const auto load_queries = [&] {
#pragma unroll
      for (int i = 0; i < kQueries; ++i) {
        q[i] = load_if(a.queries, query_row + group * kQueries + i, i < rows);
      }
    };
    load_queries();
    bool is_raised = false, far_query = false;
#pragma unroll
    for (int i = 0; i < kQueries; ++i) {
      far_query |= is_far(q[i]);
    }
    for (int first_key = 0; first_key < a.key_count; first_key += kKeys) {
      const int keys_there = min(a.key_count - first_key, kKeys);
      float own[kKeys / kWarps];
      bool far = far_query;
#pragma unroll
      for (int j = 0; j < kKeys / kWarps; ++j) {
        const int s = warp + j * kWarps;
        own[j] = load_if(a.keys, key_row + first_key + s, s < keys_there);
        far |= is_far(own[j]);
      }
      const bool any_far = __syncthreads_or(far);  // and nobody reads the last tile any more
      if (is_raised == any_far) {
        load_queries();
#pragma unroll
        for (int i = 0; i < kQueries; ++i) {
          q[i] = any_far ? q[i] : raised(q[i]);
        }
        is_raised = !any_far;
      }
#pragma unroll
      for (int j = 0; j < kKeys / kWarps; ++j) {
        keys[(warp + j * kWarps) * kColumns + lane] = any_far ? own[j] : raised(own[j]);
      }
      for (int t = warp; t < tile; t += kWarps) {
        const bool is_pair = first_query + t < a.query_count && lane < keys_there;
        const long long index = (query_row + t) * a.key_count + first_key + lane;
        gradients[lane * kGradientStride + t] = is_pair ? load(a.score_gradients, index) : 0.0f;
      }
      __syncthreads();
      const float* const d = gradients + group * kQueries;
      float* const of_group = sums + group * kKeys * kColumns;
      if (rows <= 0) {
        // none of this warp's
      } else if (any_far) {
        add_gradients<kQueries, true>(q, keys, d, part, parts, keys_there, q_sums, v_sum, of_group);
      } else if (rows > kQueries / 2) {
        add_gradients<kQueries, false>(q, keys, d, part, parts, keys_there, q_sums, v_sum, of_group);
      } else if (rows > 1) {
        add_gradients<kQueries / 2, false>(q, keys, d, part, parts, keys_there, q_sums, v_sum, of_group);
      } else {
        add_gradients<1, false>(q, keys, d, part, parts, keys_there, q_sums, v_sum, of_group);
      }
      __syncthreads();
      if (!is_there || a.key_gradients == nullptr) {
        continue;
      }
      const int groups_there = min(a.query_groups, parts_of(a.query_count - first_query, kQueries));
      for (int s = warp; s < keys_there; s += kWarps) {
        float sum = 0;
        for (int g = 0; g < groups_there; ++g) {
          sum += sums[(g * kKeys + s) * kColumns + lane];
        }
        const long long index = (key_row + first_key + s) * a.hidden + column;
        sum = v * sum + (of_tiles == split ? 0.0f : key_sums[index]);
        if (a.splits == 1 && of_tiles == tiles - 1) {
          store_element(a.key_gradients, index, to_bits(sum));
        } else {
          key_sums[index] = sum;
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kQueries; ++i) {
      sums[(warp * kQueries + i) * kColumns + lane] = q_sums[i];
    }
    __syncthreads();
    for (int t = warp; t < min(tile, a.query_count - first_query); t += kWarps) {
      float sum = 0;
      for (int p = 0; p < parts; ++p) {
        sum += sums[((t / kQueries + p * a.query_groups) * kQueries + t % kQueries) * kColumns + lane];
      }
      if (is_there && a.query_gradients != nullptr) {
        store_element(a.query_gradients, (query_row + t) * a.hidden + column, to_bits(v * sum));
      }
    }
  }
  __syncthreads();
  sums[threadIdx.x] = v_sum;
  __syncthreads();
  if (warp == 0 && is_there) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) {
      sum += sums[w * kColumns + lane];
    }
    a.partials[(static_cast<long long>(split) * a.batch + sample) * a.hidden + column] = sum;
  }
}

// The gradient of v, a block for each slice of columns; then those of keys, where tiles were shared.
extern "C" __global__ void __launch_bounds__(onchip::kPartialsThreads) add_partials(const Arguments a) {
  constexpr int kRows = onchip::kPartialsThreads / kColumns;
  __shared__ float sums[onchip::kPartialsThreads];
  const int slices = parts_of(a.hidden, kColumns), block = static_cast<int>(blockIdx.x);
  const long long rows = static_cast<long long>(a.splits) * a.batch;
  if (block >= slices) {
    const long long count = static_cast<long long>(a.batch) * a.key_count * a.hidden;
    const long long index = (block - slices) * static_cast<long long>(onchip::kPartialsThreads) + threadIdx.x;
    float sum = 0;
    for (int split = 0; index < count && split < a.splits; ++split) {
      sum += a.partials[rows * a.hidden + split * count + index];
    }
    if (index < count) {
      store_element(a.key_gradients, index, to_bits(sum));
    }
    return;
  }
  const int row = static_cast<int>(threadIdx.x) / kColumns, lane = static_cast<int>(threadIdx.x) % kColumns;
  const int column = block * kColumns + lane;
  float sum = 0;
  for (long long r = row; r < rows && column < a.hidden; r += kRows) {
    sum += a.partials[r * a.hidden + column];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (row != 0 || column >= a.hidden || a.v_gradient == nullptr) {
    return;
  }
  for (int r = 1; r < kRows; ++r) {
    sum += sums[r * kColumns + lane];
  }
  store_element(a.v_gradient, column, to_bits(sum));
}
