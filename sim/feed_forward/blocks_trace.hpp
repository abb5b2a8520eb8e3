// SPDX-License-Identifier: Apache-2.0
// The instructions and addresses with which kernels/feed_forward/device/feed_forward_blocks.cu takes one tile of images
// through layers, generated from the layout's records, in the order of the machine code:
//
//   tile      whether its inputs are those of the tile before; else matrices of 16 places, two groups of images or both
//             words at a time; weights of e4m3 become fp16; products
//   remainder of each record, which the ring in shared memory has: a later one from L2 to its place; matrices of 32
//             places, a group and word at a time; products
//   next      weights, biases and places of the output block that comes `ahead` blocks later, from L2
//   outputs   slack and bias, clip, rounding, one or two fp16 words; matrices to the places of the rows, at once or, in
//             place, behind a barrier
//
// Shared-memory addresses are exact; global ones count from the first record. Of lanes that ask L2 for the same, one is
// active. Not there: how a tile's features come and go, and what the bounds look at every few layers.
#pragma once

#include "model/feed_forward/plan/blocks_layout.hpp"
#include "sim/machine/banks.hpp"
#include "sim/trace/trace.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

class BlocksTrace : public TraceSource {
 public:
  // Of these layers, one after another. The layout must live as long.
  BlocksTrace(const BlocksLayout& layout, const BlocksTile& tile, std::vector<int> layers, int ahead);

  int blocks() const override { return 1; }
  BlockTrace block(int index) const override;
  int barriers_of_a_layer() const { return tile_.in_place ? 2 : 1; }

 private:
  const BlocksLayout& layout_;
  BlocksTile tile_;
  std::vector<int> layers_;
  int ahead_;
};

// What a tile of images on one SM asks of shared memory and L2 in the layers of a plan of blocks, access by access.
struct LayerCounts {
  BankCost reads, writes;         // of features in shared memory
  std::int64_t l2_bytes = 0;      // that are read
  std::int64_t instructions = 0;  // of all warps
};

// Layers are replayed a few at a time; the same for any number of threads.
std::vector<LayerCounts> count_blocks(const Chip& chip, const BlocksLayout& layout, const BlocksTile& tile,
                                      int first_layer, int end_layer, int threads = 1);

}  // namespace onchip
