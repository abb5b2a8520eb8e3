// SPDX-License-Identifier: Apache-2.0
// Compiled without contraction of a * b + c, so that every processor computes the same.
#include "model/feed_forward/reference_tile.hpp"

#include "model/feed_forward/equal_rows.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace onchip {
namespace {

constexpr int kMostRows = 4;  // at once: their sums stay in registers

// So many images in a register; two of them at once.
template <int kLanes>
struct Vectors {
  typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
  typedef float LanesInMemory __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float)), may_alias));
  typedef std::int32_t Flags __attribute__((vector_size(kLanes * sizeof(float))));
  static constexpr int kPairs = kTileImages / (2 * kLanes);
  static_assert(kPairs * 2 * kLanes == kTileImages);

  const float* features;
  float* results;
  float least, most;
  Flags alive[2 * kPairs], below[2 * kPairs];  // images with a feature that is not zero, not at the clip

  [[gnu::always_inline]] void finish(const Lanes& sum, float bias, std::int32_t row, int part) {
    const Lanes zero{}, low = zero + least, high = zero + most, z = sum + bias;
    const Lanes above = z < low ? low : z;
    const Lanes y = above > high ? high : above;
    alive[part] |= y != zero;
    below[part] |= y != high;
    *reinterpret_cast<LanesInMemory*>(results + static_cast<std::ptrdiff_t>(row) * kTileImages + part * kLanes) = y;
  }

  // Rows of equal columns, by numbers that are known when this is compiled: then their sums are registers.
  template <int... kRow>
  [[gnu::always_inline]] void compute_rows(const SparseLayer& layer, const std::int32_t* rows, int pair,
                                           std::integer_sequence<int, kRow...>) {
    const SparseMatrix& weights = layer.weights;
    const std::int64_t begin = weights.row_begin[rows[0]];
    const std::int64_t count = weights.row_begin[rows[0] + 1] - begin;
    const std::int32_t* const columns = weights.column.data() + begin;
    const float* const values[] = {weights.value.data() + weights.row_begin[rows[kRow]]...};
    const float* const of_pair = features + pair * 2 * kLanes;
    Lanes low[sizeof...(kRow)] = {}, high[sizeof...(kRow)] = {};
    for (std::int64_t i = 0; i < count; ++i) {
      const float* const feature = of_pair + static_cast<std::ptrdiff_t>(columns[i]) * kTileImages;
      const Lanes x_low = *reinterpret_cast<const LanesInMemory*>(feature);
      const Lanes x_high = *reinterpret_cast<const LanesInMemory*>(feature + kLanes);
      ((low[kRow] += values[kRow][i] * x_low, high[kRow] += values[kRow][i] * x_high), ...);
    }
    ((finish(low[kRow], layer.bias_of(rows[kRow]), rows[kRow], 2 * pair),
      finish(high[kRow], layer.bias_of(rows[kRow]), rows[kRow], 2 * pair + 1)),
     ...);
  }

  [[gnu::always_inline]] void compute(const ReferenceLayerRuns& runs) {
    for (const ReferenceLayerRuns::Run& run : runs.runs) {
      const std::int32_t* const rows = runs.order.data() + run.first;
      for (int pair = 0; pair < kPairs; ++pair) {
        if (run.rows == kMostRows) {
          compute_rows(runs.layer, rows, pair, std::make_integer_sequence<int, kMostRows>());
        } else {
          for (int r = 0; r < run.rows; ++r) {
            compute_rows(runs.layer, rows + r, pair, std::integer_sequence<int, 0>());
          }
        }
      }
    }
  }

  [[gnu::always_inline]] TileImages images() const {
    TileImages images;
    std::int32_t is_alive[kTileImages], is_below[kTileImages];
    std::memcpy(is_alive, alive, sizeof(alive));
    std::memcpy(is_below, below, sizeof(below));
    for (int image = 0; image < kTileImages; ++image) {
      images.alive |= static_cast<std::uint32_t>(is_alive[image] != 0) << image;
      images.below_clip |= static_cast<std::uint32_t>(is_below[image] != 0) << image;
    }
    return images;
  }
};

template <int kLanes>
[[gnu::always_inline]] inline TileImages compute(const ReferenceLayerRuns& runs, float clip, const float* features,
                                                 float* results) {
  Vectors<kLanes> vectors{features, results, runs.layer.least(), runs.layer.most(clip), {}, {}};
  vectors.compute(runs);
  return vectors.images();
}

TileImages compute_anywhere(const ReferenceLayerRuns& runs, float clip, const float* features, float* results) {
  return compute<4>(runs, clip, features, results);
}
using Compute = TileImages (*)(const ReferenceLayerRuns&, float, const float*, float*);

#if defined(__x86_64__)
[[gnu::target("avx2")]] TileImages compute_avx2(const ReferenceLayerRuns& runs, float clip, const float* features,
                                                float* results) {
  return compute<8>(runs, clip, features, results);
}
[[gnu::target("avx512f")]] TileImages compute_avx512(const ReferenceLayerRuns& runs, float clip, const float* features,
                                                     float* results) {
  return compute<16>(runs, clip, features, results);
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

TileImages compute_tile(const ReferenceLayerRuns& runs, float clip, const float* features, float* results) {
  static const Compute compute_chosen = choose();
  return compute_chosen(runs, clip, features, results);
}

bool keeps_at_clip(const SparseLayer& layer, float clip) {
  const SparseMatrix& weights = layer.weights;
  for (int row = 0; row < weights.rows; ++row) {
    float sum = 0;
    for (std::int64_t i = weights.row_begin[row]; i < weights.row_begin[row + 1]; ++i) {
      sum += weights.value[i] * clip;
    }
    if (activate(sum + layer.bias_of(row), layer.least(), layer.most(clip)) != clip) {
      return false;
    }
  }
  return true;
}

}  // namespace onchip
