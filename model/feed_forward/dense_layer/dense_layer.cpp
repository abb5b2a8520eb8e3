// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/dense_layer/dense_layer.hpp"

#include "model/base/error.hpp"
#include "model/feed_forward/dense_layer/whole_layers.hpp"
#include "model/feed_forward/plan/blocks_layout.hpp"
#include "model/feed_forward/plan/blocks_plan_text.hpp"
#include "model/feed_forward/structure/layer_facts.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace onchip {

DenseLayer dense_layer(const FeedForward& network) {
  constexpr int kMostNeurons = 4096, kLeastWeights = 16;  // one of so many elements
  if (std::ranges::max(network.neurons) > kMostNeurons) {
    throw InputError("layers of more than " + std::to_string(kMostNeurons) + " neurons are not computed whole");
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
    throw InputError("fewer than one of " + std::to_string(kLeastWeights) + " elements is a weight");
  }
  if (!std::ranges::all_of(facts, &LayerFacts::monotone)) {
    throw InputError(std::string(kNotMonotone));
  }
  NetworkStructure structure = whole_layers(network);
  BlocksWork work = blocks_work(network, structure, blocks_geometry(network, structure));
  return {std::move(structure), std::move(work)};
}

std::string dense_layer_text(const BlocksPlan& plan) {
  return std::string(DenseLayer::kName) + ' ' + text(plan);
}

BlocksPlan read_dense_layer_plan(std::string_view text, int layers) {
  return read_blocks_plan(text.substr(std::min(text.size(), DenseLayer::kName.size())), layers);
}

}  // namespace onchip
