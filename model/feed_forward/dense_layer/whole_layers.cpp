// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/dense_layer/whole_layers.hpp"

namespace onchip {

LayerStructure whole_layer(const SparseMatrix& weights) {
  std::vector<bool> is_used(weights.columns);
  for (const std::int32_t column : weights.column) {
    is_used[column] = true;
  }
  std::vector<std::int32_t> columns;
  for (std::int32_t column = 0; column < weights.columns; ++column) {
    if (is_used[column]) {
      columns.push_back(column);
    }
  }
  const auto padded = [](std::size_t count, std::size_t unit) { return (count + unit - 1) / unit * unit; };
  columns.resize(padded(columns.size(), kBlockColumns), kNoNeuron);
  LayerStructure structure;
  structure.weights_in_blocks = weights.nnz();
  structure.remainder = {
      weights.rows, weights.columns, std::vector<std::int64_t>(static_cast<std::size_t>(weights.rows) + 1), {}, {}};
  Blocks& blocks = structure.blocks;
  for (int first = 0; first < weights.rows && !columns.empty(); first += kBlockRows) {
    for (std::int32_t row = first; row < first + kBlockRows; ++row) {
      blocks.row.push_back(row < weights.rows ? row : kNoNeuron);
    }
    blocks.column.insert(blocks.column.end(), columns.begin(), columns.end());
    blocks.column_begin.push_back(std::ssize(blocks.column));
  }
  return structure;
}

NetworkStructure whole_layers(const FeedForward& network) {
  return with_places(network, [](const SparseMatrix& weights) { return whole_layer(weights); });
}

}  // namespace onchip
