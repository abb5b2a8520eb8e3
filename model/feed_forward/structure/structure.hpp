// SPDX-License-Identifier: Apache-2.0
// The structure of a whole network: the blocks of each layer, and the places of the neurons between layers.
#pragma once

#include "model/base/parallel.hpp"
#include "model/feed_forward/network.hpp"
#include "model/feed_forward/structure/blocks.hpp"
#include "model/feed_forward/structure/places.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

struct NetworkStructure {
  std::vector<LayerStructure> layers;
  std::vector<Places> places;  // [layers + 1]: of the input, then of each layer's outputs
};

struct StructureSummary {
  std::int64_t weights = 0, weights_in_blocks = 0, block_elements = 0, blocks = 0;
  Conflicts reads, writes;

  // Whether so many weights lie in blocks that the others may join them: those make nearly empty columns.
  bool is_mostly_blocks() const { return 4 * weights_in_blocks >= 3 * weights; }
};

// Puts the remainder into blocks, too, however few of their rows read a column: into further columns of the blocks of
// its rows, and blocks of the rows that have none. Those that one access takes differ modulo 8 in their places, as far
// as they can; places and full blocks stay as they are.
void absorb_remainder(LayerStructure& layer, const Places& inputs, const Places& outputs);
void absorb_remainder(NetworkStructure& structure);

// The same for any number of threads.
NetworkStructure find_structure(const FeedForward& network, double least_fill = 0.5, int threads = all_cores());
StructureSummary summary(const NetworkStructure& structure);

}  // namespace onchip
