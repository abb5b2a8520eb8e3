// SPDX-License-Identifier: Apache-2.0
// A tile of images on one SM through the layers of a plan of blocks, cycle by cycle (sim/machine/sm.hpp), all SMs as
// busy as this one: what comes from L2 comes at the rate at which all of them get the same bytes
// (exchange_bytes_per_cycle_per_sm). Layers are simulated a few at a time, after one that warms up; the same for any
// number of threads.
#pragma once

#include "model/feed_forward/plan/blocks_layout.hpp"
#include "sim/machine/sm.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

struct LayerRun {
  double cycles = 0;              // from the barrier before it to its own last one
  BankCost reads, writes;         // of features in shared memory
  std::int64_t l2_bytes = 0;      // that are read
  std::int64_t instructions = 0;  // of all warps
};

struct BlocksRun {
  std::vector<LayerRun> layers;
  Causes causes{};  // cycles; they sum to those of the layers
  double us_per_cycle = 0;

  double cycles() const;
  Cause binding() const;  // the largest cause
};

BlocksRun simulate_blocks(const Chip& chip, const BlocksLayout& layout, const BlocksTile& tile, int first_layer,
                          int end_layer, const SmOptions& options = {}, int threads = 1);

// Without time: each layer's accesses alone.
std::vector<LayerRun> count_blocks(const Chip& chip, const BlocksLayout& layout, const BlocksTile& tile,
                                   int first_layer, int end_layer, int threads = 1);

}  // namespace onchip
