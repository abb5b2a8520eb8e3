// SPDX-License-Identifier: Apache-2.0
// What the kernel of an unstructured plan reads, as feed_forward_unstructured.cu lays it out. Rows that read shared
// memory in one access (structure/access_rows.hpp), then accesses of about as many steps, are an item: the rows that a
// warp computes at once. In a step each row of an item reads one input.
//   entries  16 bytes a row, [four or two steps][rows of the item]: place | weight << 16, of fp16 or bf16 weights;
//   place,
//            weight of fp32 ones. A row that reads nothing has a weight of -0 and a place that is always zero, which
//            leaves every sum as it is.
//   items    half entries of a row; for each row the place of its output, or kNoPlace, and its bias
// The items of a layer go to the warps round-robin. A warp reads what is its own in one piece, layer after layer.
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
    std::vector<std::array<std::uint32_t, 4>> entries;  // a warp's after another's, and some more that may be read
    std::vector<std::uint32_t> warp_begin;              // [warps + 1]: its first entry, in units of an item's rows
    std::vector<std::uint32_t>
        layer_items;                    // [layers]: of each warp; the last ones may have no rows; kLinearLayer beside
    std::vector<std::uint32_t> halves;  // [warps, items, + 1]: half entries of a row
    std::vector<std::uint32_t> destination;  // [warps, items, rows of an item]
    std::vector<float> bias;                 // [warps, items, rows of an item]
    std::int64_t weights = 0;
    bool has_linear = false;   // some layer is
    std::vector<int> neurons;  // [layers + 1]
  };

  Precision weight_type = Precision::fp16;  // fp16 or bf16 if all weights are such, and places have 16 bits; else fp32
  float clip = 0;
  bool wakes_zeros = false;  // some layer gives an image of zeros a feature: a tile of dead images goes on
  std::vector<Phase> phases;
};

UnstructuredLayout pack_unstructured(const FeedForward& network, const UnstructuredPlan& plan);

}  // namespace onchip
