// SPDX-License-Identifier: Apache-2.0
// Layers computed whole on tensor cores, zeros and all: a plan of blocks of 16 rows, one after another, and all columns
// that any row of the layer reads, for networks that are small or not so sparse and have no blocks of their own. To
// multiply the zeros, too, costs less there than one weight after another.
#pragma once

#include "model/base/found.hpp"
#include "model/feed_forward/plan/blocks_price.hpp"

namespace onchip {

LayerStructure whole_layer(const SparseMatrix& weights);
NetworkStructure whole_layers(const FeedForward& network);

struct DenseLayer {
  NetworkStructure structure;
  BlocksWork work;
};

// Nothing where layers are wider than plans of blocks hold on any chip, so sparse that zeros are most of the work, have
// no clip or weights that fp16 cannot hold, or are not monotone.
Found<DenseLayer> dense_layer(const FeedForward& network);

}  // namespace onchip
