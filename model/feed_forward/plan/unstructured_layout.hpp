// SPDX-License-Identifier: Apache-2.0
// What the kernel of an unstructured plan reads, as feed_forward_unstructured.cu lays it out. Rows go by length into
// items, of as many rows as a warp computes at once; in a step each row of an item reads one input.
//   entries  16 bytes a row, [four or two steps][rows of the item]: place | weight << 16, of fp16 or bf16 weights;
//   place,
//            weight of fp32 ones. A row that reads nothing has a weight of -0 and a place that is always zero, which
//            leaves every sum as it is.
//   items    first entry; for each row the place of its output, or kNoPlace, and its bias
// A neuron's place is its number.
#pragma once

#include "model/feed_forward/plan/unstructured_plan.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace onchip {

struct UnstructuredLayout {
  static constexpr std::uint32_t kNoPlace = ~std::uint32_t{0};

  struct Phase {
    int first_layer = 0;
    UnstructuredGeometry geometry;
    std::vector<std::array<std::uint32_t, 4>> entries;
    std::vector<std::uint32_t> item_begin;   // [items of all layers + 1], in units of a warp's entries
    std::vector<std::uint32_t> layer_item;   // [layers + 1]: first item
    std::vector<std::uint32_t> destination;  // [items, rows of an item]
    std::vector<float> bias;                 // [items, rows of an item]
    std::int64_t steps = 0, weights = 0;     // accesses of 128 bytes, for each rows_per_access() rows; weights
    std::vector<int> neurons;                // [layers + 1]
  };

  Precision weight_type = Precision::fp16;  // fp16 or bf16 if all weights are such, and places have 16 bits; else fp32
  float clip = 0;
  bool wakes_zeros = false;  // some layer gives an image of zeros a feature: a tile of dead images goes on
  std::vector<Phase> phases;
};

UnstructuredLayout pack_unstructured(const FeedForward& network, const UnstructuredPlan& plan);

}  // namespace onchip
