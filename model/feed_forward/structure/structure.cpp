// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/structure.hpp"

#include "model/base/error.hpp"
#include "model/feed_forward/structure/known_blocks.hpp"

namespace onchip {

void StructureSummary::check_mostly_blocks() const {
  if (4 * weights_in_blocks < 3 * weights) {
    throw InputError(std::to_string(weights_in_blocks) + " of " + std::to_string(weights) +
                     " weights are in rows that share their columns; three quarters must be");
  }
}

NetworkStructure find_structure(const FeedForward& network, double least_fill, int threads) {
  KnownBlocks known(least_fill);
  return with_places(
      network, [&](const SparseMatrix& weights) { return known.find(weights); }, threads);
}

NetworkStructure with_places(const FeedForward& network,
                             const std::function<LayerStructure(const SparseMatrix& weights)>& blocks_of, int threads) {
  const int layers = network.layers();
  NetworkStructure structure{std::vector<LayerStructure>(layers), std::vector<Places>(layers + 1),
                             std::vector<char>(layers), std::vector<WeightValues>(layers)};
  parallel_for(layers, threads, [&](int l) {
    const SparseLayer layer = network.layer(l);
    structure.layers[l] = blocks_of(layer.weights);
    structure.monotone[l] = is_monotone(layer);
    structure.values[l] = values_of(layer.weights.value);
  });
  // The rows of a layer's blocks are ordered by the places of its outputs, their columns by those of its inputs.
  parallel_for(layers + 1, threads, [&](int l) {
    Blocks none_before, none_after;
    structure.places[l] = place_neurons(network.neurons[l], l == 0 ? none_before : structure.layers[l - 1].blocks,
                                        l == layers ? none_after : structure.layers[l].blocks);
  });
  return structure;
}

StructureSummary summary(const NetworkStructure& structure) {
  StructureSummary sum;
  const auto add = [](Conflicts& to, const Conflicts& from) {
    to.accesses += from.accesses;
    to.extra += from.extra;
  };
  for (std::size_t l = 0; l < structure.layers.size(); ++l) {
    const LayerStructure& layer = structure.layers[l];
    sum.weights += layer.weights_in_blocks + layer.remainder.nnz();
    sum.weights_in_blocks += layer.weights_in_blocks;
    sum.block_elements += layer.blocks.elements();
    sum.blocks += layer.blocks.count();
    add(sum.reads, read_conflicts(layer.blocks, structure.places[l]));
    add(sum.writes, write_conflicts(layer.blocks, structure.places[l + 1]));
  }
  return sum;
}

}  // namespace onchip
