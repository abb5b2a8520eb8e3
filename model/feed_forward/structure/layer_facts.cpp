// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/layer_facts.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {

LayerFacts facts_of(const SparseLayer& layer, double clip) {
  LayerFacts facts{.monotone = !wakes_zeros(layer)};
  for (int row = 0; row < layer.weights.rows; ++row) {
    double sum = 0;
    for (std::int64_t i = layer.weights.row_begin[row]; i < layer.weights.row_begin[row + 1]; ++i) {
      facts.monotone = facts.monotone && layer.weights.value[i] >= 0;
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
