// SPDX-License-Identifier: Apache-2.0
// A network's layers as blocks that take everything: 16 rows, one after another, of all columns that any row of the
// layer reads. Tensor cores multiply the zeros too, which costs less than one weight after another where a layer is
// small or not so sparse.
#pragma once

#include "model/feed_forward/structure/structure.hpp"

namespace onchip {

LayerStructure whole_layer(const SparseMatrix& weights);
NetworkStructure whole_layers(const FeedForward& network);

}  // namespace onchip
