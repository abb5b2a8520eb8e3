// SPDX-License-Identifier: Apache-2.0
// Compiled without contraction of a * b + c, so that every processor computes the same.
#include "model/feed_forward/reference_tile.hpp"

#include "model/feed_forward/structure/equal_rows.hpp"

#include <algorithm>
#include <utility>

namespace onchip {
namespace {

constexpr int kLanes = 16;
static_assert(kTileImages == 2 * kLanes);
constexpr int kMostRows = 4;  // at once: their sums stay in registers
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef float LanesInMemory __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float)), may_alias));
typedef std::int32_t Flags __attribute__((vector_size(kLanes * sizeof(float))));

struct Tile {
  const float* features;
  float* results;
  float clip;
  Flags alive[2];
};

[[gnu::always_inline]] inline void finish(const Lanes& sum, float bias, float clip, float* to, Flags& alive) {
  const Lanes zero{}, most = zero + clip, z = sum + bias;
  const Lanes positive = z < zero ? zero : z;
  const Lanes y = positive > most ? most : positive;
  alive |= y != zero;
  *reinterpret_cast<LanesInMemory*>(to) = y;
}

// Rows of equal columns, by numbers that are known when this is compiled: then their sums are registers.
template <int... kRow>
[[gnu::always_inline]] inline void compute_rows(const SparseLayer& layer, const std::int32_t* rows, Tile& tile,
                                                std::integer_sequence<int, kRow...>) {
  const SparseMatrix& weights = layer.weights;
  const std::int64_t begin = weights.row_begin[rows[0]];
  const std::int64_t count = weights.row_begin[rows[0] + 1] - begin;
  const std::int32_t* const columns = weights.column.data() + begin;
  const float* const values[] = {weights.value.data() + weights.row_begin[rows[kRow]]...};
  Lanes low[sizeof...(kRow)] = {}, high[sizeof...(kRow)] = {};
  for (std::int64_t i = 0; i < count; ++i) {
    const float* const feature = tile.features + static_cast<std::ptrdiff_t>(columns[i]) * kTileImages;
    const Lanes x_low = *reinterpret_cast<const LanesInMemory*>(feature);
    const Lanes x_high = *reinterpret_cast<const LanesInMemory*>(feature + kLanes);
    ((low[kRow] += values[kRow][i] * x_low, high[kRow] += values[kRow][i] * x_high), ...);
  }
  const auto finish_row = [&](std::int32_t row, Lanes & sum_low, Lanes & sum_high) __attribute__((always_inline)) {
    float* const to = tile.results + static_cast<std::ptrdiff_t>(row) * kTileImages;
    finish(sum_low, layer.bias_of(row), tile.clip, to, tile.alive[0]);
    finish(sum_high, layer.bias_of(row), tile.clip, to + kLanes, tile.alive[1]);
  };
  (finish_row(rows[kRow], low[kRow], high[kRow]), ...);
}

[[gnu::always_inline]] inline void compute(const ReferenceLayerRuns& runs, Tile& tile) {
  for (const ReferenceLayerRuns::Run& run : runs.runs) {
    const std::int32_t* const rows = runs.order.data() + run.first;
    if (run.rows == kMostRows) {
      compute_rows(runs.layer, rows, tile, std::make_integer_sequence<int, kMostRows>());
    } else {
      for (int r = 0; r < run.rows; ++r) {
        compute_rows(runs.layer, rows + r, tile, std::integer_sequence<int, 0>());
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
