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

namespace {

// Whether fp16 holds each weight as it is.
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

}  // namespace

WeightValues values_of(std::span<const float> weights) {
  WeightValues values{.halves = are_halves(weights)};
  for (const float weight : weights) {
    const auto bits = std::bit_cast<std::uint32_t>(weight);
    const std::uint32_t fraction = bits & 0x7fffff, whole = fraction | 0x800000;
    const auto first_bit = std::bit_cast<float>(bits & 0x7f800000);
    const float last_bit = static_cast<float>(static_cast<std::int32_t>(whole & -whole)) * (first_bit * 0x1p-23F);
    values.least = std::min(values.least, weight);
    values.largest = std::max(values.largest, weight);
    values.fraction |= fraction;
    values.last_bit = std::min(values.last_bit, weight == 0 ? values.last_bit : last_bit);
  }
  return values;
}

WeightValues both(const WeightValues& a, const WeightValues& b) {
  return {.halves = a.halves && b.halves,
          .least = std::min(a.least, b.least),
          .largest = std::max(a.largest, b.largest),
          .fraction = a.fraction | b.fraction,
          .last_bit = std::min(a.last_bit, b.last_bit)};
}

float WeightValues::e4m3_factor() const {
  constexpr std::uint32_t kBeyond = 0x7fffff >> 3;  // a fraction of three bits
  const float most = std::max(std::fabs(least), std::fabs(largest));
  if (!halves || (fraction & kBeyond) != 0 || most == 0 || !std::isfinite(most)) {
    return 0;
  }
  int exponent = 0;
  const float part = std::frexp(most, &exponent);                             // in [0.5, 1)
  const float factor = std::ldexp(1.0F, (part > 0.875F ? 8 : 9) - exponent);  // to 448 = 0.875 2^9 at most
  return last_bit * factor >= 0x1p-9F ? factor : 0;
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
