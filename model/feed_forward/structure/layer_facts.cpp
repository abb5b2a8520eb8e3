// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/layer_facts.hpp"

#include "model/base/numeric.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace onchip {

bool is_monotone(const SparseLayer& layer) {
  bool none_negative = true;
  for (const float weight : layer.weights.value) {
    none_negative &= weight >= 0;
  }
  return none_negative && !layer.is_linear && !wakes_zeros(layer);
}

bool are_halves(std::span<const float> weights) {
  constexpr std::size_t kAtOnce = 1024;
  for (; !weights.empty(); weights = weights.subspan(std::min(kAtOnce, weights.size()))) {
    const std::span<const float> some = weights.first(std::min(kAtOnce, weights.size()));
    // Normal numbers of fp16, from 2^-14 to below 2^16, with 10 bits behind the point.
    bool are_normal = true;
    for (const float weight : some) {
      const auto bits = std::bit_cast<std::uint32_t>(weight);
      are_normal &= (bits & 0x1fff) == 0 && (bits & 0x7fffffff) - 0x38800000 < 0x0f000000;
    }
    if (!are_normal && !std::ranges::all_of(some, [](float weight) {
          return from_bits(Precision::fp16, to_bits(Precision::fp16, weight)) == weight;
        })) {
      return false;
    }
  }
  return true;
}

LayerFacts facts_of(const SparseLayer& layer, double clip) {
  LayerFacts facts{.monotone = is_monotone(layer)};
  for (int row = 0; row < layer.weights.rows; ++row) {
    double sum = 0;
    for (std::int64_t i = layer.weights.row_begin[row]; i < layer.weights.row_begin[row + 1]; ++i) {
      sum += std::fabs(layer.weights.value[i]);
    }
    facts.longest_row = std::max(facts.longest_row, layer.weights.row_begin[row + 1] - layer.weights.row_begin[row]);
    facts.largest_sum = std::max(facts.largest_sum, sum);
    facts.keeps_clipped = facts.keeps_clipped && sum * clip * (1 - 0x1p-9) + layer.bias_of(row) >= clip;
  }
  return facts;
}

LayerFacts both(const LayerFacts& a, const LayerFacts& b) {
  return {.monotone = a.monotone && b.monotone,
          .keeps_clipped = a.keeps_clipped && b.keeps_clipped,
          .longest_row = std::max(a.longest_row, b.longest_row),
          .largest_sum = std::max(a.largest_sum, b.largest_sum)};
}

float slack_of(std::int64_t products, std::int64_t tiles) {
  const double reference = static_cast<double>(products + 1) * 0x1p-24;
  const double cut = 2 * static_cast<double>(products + 2 * tiles) * 0x1p-23;
  // Of whole last bits, so that 1 + slack is a number of fp32, and what is left out is much less than one.
  return static_cast<float>(std::ceil((reference + cut) * 0x1p23 + 1) * 0x1p-23);
}

}  // namespace onchip
