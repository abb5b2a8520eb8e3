// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/dense_layer/dense_layer.hpp"

#include "model/base/error.hpp"
#include "model/feed_forward/dense_layer/whole_layers.hpp"
#include "model/feed_forward/plan/blocks_layout.hpp"
#include "model/feed_forward/structure/layer_facts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace onchip {

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
