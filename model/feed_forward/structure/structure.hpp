// SPDX-License-Identifier: Apache-2.0
// The structure of a whole network: the blocks of each layer, and the places of the neurons between layers.
#pragma once

#include "model/base/parallel.hpp"
#include "model/feed_forward/network.hpp"
#include "model/feed_forward/structure/blocks.hpp"
#include "model/feed_forward/structure/layer_facts.hpp"
#include "model/feed_forward/structure/places.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace onchip {

struct NetworkStructure {
  std::vector<LayerStructure> layers;
  std::vector<Places> places;        // [layers + 1]: of the input, then of each layer's outputs
  std::vector<char> monotone;        // [layers]: whether bounds hold (is_monotone)
  std::vector<WeightValues> values;  // [layers]
};

struct StructureSummary {
  std::int64_t weights = 0, weights_in_blocks = 0, block_elements = 0, blocks = 0;
  Conflicts reads, writes;

  // Throws InputError where less than three quarters of the weights lie in blocks: the others cost several times as
  // much.
  void check_mostly_blocks() const;
};

// Blocks of layers that are others with their inputs permuted are searched once (known_blocks.hpp). The same for any
// number of threads.
NetworkStructure find_structure(const FeedForward& network, double least_fill = 0.5, int threads = all_cores());
// Of layers whose blocks are found in whatever way.
NetworkStructure with_places(const FeedForward& network,
                             const std::function<LayerStructure(const SparseMatrix& weights)>& blocks_of,
                             int threads = all_cores());
StructureSummary summary(const NetworkStructure& structure);

}  // namespace onchip
