// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/dense_layer/dense_layer.hpp"

#include "model/base/error.hpp"
#include "model/feed_forward/plan/blocks_layout.hpp"
#include "model/feed_forward/structure/layer_facts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

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

Found<DenseLayer> dense_layer(const FeedForward& network) {
  constexpr int kMostNeurons = 4096, kLeastWeights = 16;  // one of so many elements
  const auto nothing = [](const std::string& why) { return Found<DenseLayer>::nothing(why); };
  if (std::ranges::max(network.neurons) > kMostNeurons) {
    return nothing("layers of more than " + std::to_string(kMostNeurons) + " neurons are not computed whole");
  }
  if (!std::isfinite(network.clip)) {
    return nothing(std::string(kNeedsClip));
  }
  std::vector<LayerFacts> facts(network.layers());
  std::vector<double> weights(network.layers()), elements(network.layers());
  parallel_for(network.layers(), all_cores(), [&](int l) {
    const SparseLayer layer = network.layer(l);
    facts[l] = facts_of(layer, network.clip);
    weights[l] = static_cast<double>(layer.weights.nnz());
    elements[l] = static_cast<double>(network.inputs(l)) * network.outputs(l);
  });
  const auto sum = [](const std::vector<double>& of) { return std::accumulate(of.begin(), of.end(), 0.0); };
  if (sum(weights) * kLeastWeights < sum(elements)) {
    return nothing("fewer than one of " + std::to_string(kLeastWeights) + " elements is a weight");
  }
  if (!std::ranges::all_of(facts, &LayerFacts::monotone)) {
    return nothing(std::string(kNotMonotone));
  }
  try {
    NetworkStructure structure = whole_layers(network);
    BlocksWork work = blocks_work(network, structure, blocks_geometry(network, structure));
    return DenseLayer{std::move(structure), std::move(work)};
  } catch (const InputError& error) {  // for weights that fp16 cannot hold
    return nothing(error.what());
  }
}

}  // namespace onchip
