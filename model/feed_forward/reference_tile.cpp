// SPDX-License-Identifier: Apache-2.0
// Compiled without contraction of a * b + c, so that every processor computes the same.
#include "model/feed_forward/reference_tile.hpp"

#include "model/feed_forward/structure/equal_rows.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace onchip {
namespace {

constexpr int kLanes = 16;
constexpr int kVectors = kTileImages / kLanes;
constexpr int kMostRows = 4;  // at once: their sums stay in registers
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef std::int32_t Flags __attribute__((vector_size(kLanes * sizeof(float))));

struct Tile {
  const float* features;
  float* results;
  float clip;
  Flags alive[kVectors];
};

template <int kRows>
[[gnu::always_inline]] inline void compute_rows(const SparseLayer& layer, const std::int32_t* rows, Tile& tile) {
  const SparseMatrix& weights = layer.weights;
  const std::int64_t begin = weights.row_begin[rows[0]];
  const std::int64_t count = weights.row_begin[rows[0] + 1] - begin;
  const std::int32_t* columns = weights.column.data() + begin;
  const float* values[kRows];
  Lanes sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    values[r] = weights.value.data() + weights.row_begin[rows[r]];
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = Lanes{};
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const float* const feature = tile.features + static_cast<std::ptrdiff_t>(columns[i]) * kTileImages;
    Lanes x[kVectors];
    std::memcpy(x, feature, sizeof x);
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] += values[r][i] * x[v];
      }
    }
  }
  const Lanes zero{}, clip = zero + tile.clip;
  for (int r = 0; r < kRows; ++r) {
    Lanes y[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const Lanes z = sum[r][v] + layer.bias_of(rows[r]);
      const Lanes positive = z < zero ? zero : z;
      y[v] = positive > clip ? clip : positive;
      tile.alive[v] |= y[v] != zero;
    }
    std::memcpy(tile.results + static_cast<std::ptrdiff_t>(rows[r]) * kTileImages, y, sizeof y);
  }
}

[[gnu::always_inline]] inline void compute(const ReferenceLayerRuns& runs, Tile& tile) {
  for (const ReferenceLayerRuns::Run& run : runs.runs) {
    const std::int32_t* const rows = runs.order.data() + run.first;
    if (run.rows == kMostRows) {
      compute_rows<kMostRows>(runs.layer, rows, tile);
    } else {
      for (int r = 0; r < run.rows; ++r) {
        compute_rows<1>(runs.layer, rows + r, tile);
      }
    }
  }
}

void compute_anywhere(const ReferenceLayerRuns& runs, Tile& tile) {
  compute(runs, tile);
}
using Compute = void (*)(const ReferenceLayerRuns&, Tile&);

#if defined(__x86_64__)
[[gnu::target("avx2")]] void compute_avx2(const ReferenceLayerRuns& runs, Tile& tile) {
  compute(runs, tile);
}
[[gnu::target("avx512f")]] void compute_avx512(const ReferenceLayerRuns& runs, Tile& tile) {
  compute(runs, tile);
}
Compute choose() {
  return __builtin_cpu_supports("avx512f") ? compute_avx512
         : __builtin_cpu_supports("avx2")  ? compute_avx2
                                           : compute_anywhere;
}
#else
Compute choose() {
  return compute_anywhere;
}
#endif

}  // namespace

ReferenceLayerRuns prepare(SparseLayer layer) {
  RowGroups groups = equal_rows(layer.weights);
  ReferenceLayerRuns runs{std::move(layer), std::move(groups.rows), {}};
  for (int group = 0; group < groups.count(); ++group) {
    for (std::int32_t first = groups.begin[group]; first < groups.begin[group + 1]; first += kMostRows) {
      runs.runs.push_back({first, std::min(kMostRows, groups.begin[group + 1] - first)});
    }
  }
  return runs;
}

std::uint32_t compute_tile(const ReferenceLayerRuns& runs, float clip, const float* features, float* results) {
  static const Compute compute_chosen = choose();
  Tile tile{features, results, clip, {}};
  compute_chosen(runs, tile);
  std::uint32_t alive = 0;
  for (int image = 0; image < kTileImages; ++image) {
    alive |= static_cast<std::uint32_t>(tile.alive[image / kLanes][image % kLanes] != 0) << image;
  }
  return alive;
}

}  // namespace onchip
