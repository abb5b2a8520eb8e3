// SPDX-License-Identifier: Apache-2.0
// Blocks of layers that are an earlier one with its inputs permuted, found without a search. If blocks have all weights
// of a layer, and 16 rows of equal columns each, then find_blocks asks for no more than which rows are equal, and how
// many inputs two blocks share. Both stay if inputs are permuted, so that the blocks found are those of a search.
//
// Inputs that are read by the same blocks are a class. A layer is a known one with its inputs permuted if
//   1. rows are equal where the known layer's are
//   2. inputs with a class's signature (a hash of the rows that read it) are as many as the class has
//   3. each block's columns are as many as the known block's, all of its classes
// since then a block reads all inputs of its classes, and no other. Hashes only say where to look: 1 and 3 compare
// weight by weight.
#pragma once

#include "model/feed_forward/structure/blocks.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace onchip {

class KnownBlocks {
 public:
  explicit KnownBlocks(double least_fill = 0.5) : least_fill_(least_fill) {}

  // What find_blocks finds, for any number of threads at once: of a known layer, or searched and then known.
  LayerStructure find(const SparseMatrix& weights);
  // Nothing where no known layer has these inputs permuted.
  std::optional<LayerStructure> known(const SparseMatrix& weights) const;

 private:
  struct Layer;
  std::vector<std::shared_ptr<const Layer>> layers() const;
  void remember(const SparseMatrix& weights, const LayerStructure& structure);

  double least_fill_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Layer>> layers_;
};

}  // namespace onchip
