// SPDX-License-Identifier: Apache-2.0
// What the bounds of plans of blocks need to know of layers.
#pragma once

#include "model/feed_forward/network.hpp"

#include <cstdint>
#include <limits>
#include <span>

namespace onchip {

struct LayerFacts {
  bool monotone = true, keeps_clipped = true;  // as BlocksLayout has them
  std::int64_t longest_row = 0;
  double largest_sum = 0;  // of a row's weights
};
// Whether bounds hold: no weight is negative, no bias wakes an image of zeros, and features end at zero.
bool is_monotone(const SparseLayer& layer);

// What weights have in common.
struct WeightValues {
  bool halves = true;  // fp16 holds each as it is; else nothing more is known
  float least = std::numeric_limits<float>::infinity(), largest = -least;
  std::uint32_t fraction = 0;                               // of fp32, or-ed
  float last_bit = std::numeric_limits<float>::infinity();  // the least of one that is not zero

  bool are_one() const { return halves && least == largest && largest <= std::numeric_limits<float>::max(); }
  // The largest power of two by which weights become numbers of e4m3, all of them; 0 if there is none.
  float e4m3_factor() const;
};
WeightValues values_of(std::span<const float> weights);
WeightValues both(const WeightValues& a, const WeightValues& b);

LayerFacts facts_of(const SparseLayer& layer, double clip);
LayerFacts both(const LayerFacts& a, const LayerFacts& b);

// By how much a row's sum of so many products may be off, of the exact sum. The reference rounds each product and each
// sum, by 2^-24 of the sum so far at most. Tensor cores are assumed to cut what they add no lower than at the last bit
// of the largest, 2^-23 of the sum at most: each product, and, of each tile of 16 columns that they multiply, the sum
// before it and the sum behind it. Features of two words have all of it twice.
float slack_of(std::int64_t products, std::int64_t tiles);

}  // namespace onchip
