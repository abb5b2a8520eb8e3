// SPDX-License-Identifier: Apache-2.0
// What a tile of images on one SM asks of shared memory and L2 in the layers of a plan of blocks, access by access.
// Layers are replayed a few at a time; the same for any number of threads.
#pragma once

#include "model/feed_forward/plan/blocks_layout.hpp"
#include "sim/machine/banks.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

struct LayerCounts {
  BankCost reads, writes;         // of features in shared memory
  std::int64_t l2_bytes = 0;      // that are read
  std::int64_t instructions = 0;  // of all warps
};

std::vector<LayerCounts> count_blocks(const Chip& chip, const BlocksLayout& layout, const BlocksTile& tile,
                                      int first_layer, int end_layer, int threads = 1);

}  // namespace onchip
