// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/structure.hpp"

#include "model/feed_forward/structure/equal_rows.hpp"

#include <algorithm>

namespace onchip {
namespace {

// Neurons in eights, `of` of them, whose places differ modulo 8 as far as they can; the rest of an eight is kNoNeuron.
std::vector<std::int32_t> in_eights(std::vector<std::int32_t> neurons, int of, const Places& places) {
  std::ranges::stable_sort(neurons, {}, [&](std::int32_t neuron) { return places.of_neuron[neuron] % kFreePlaces; });
  std::vector<std::int32_t> eights(static_cast<std::size_t>(of) * kFreePlaces, kNoNeuron);
  for (std::size_t i = 0; i < neurons.size(); ++i) {
    eights[i % of * kFreePlaces + i / of] = neurons[i];
  }
  return eights;
}

// So many eights hold them, in whole tiles.
int eights_of(std::size_t neurons) {
  return static_cast<int>((neurons + kBlockColumns - 1) / kBlockColumns) * (kBlockColumns / kFreePlaces);
}

}  // namespace

void absorb_remainder(LayerStructure& layer, const Places& inputs, const Places& outputs) {
  SparseMatrix& rest = layer.remainder;
  Blocks all;
  std::vector<bool> is_in_block(rest.rows);
  const auto add = [&](std::span<const std::int32_t> rows, std::span<const std::int32_t> columns) {
    std::vector<std::int32_t> further;
    for (const std::int32_t row : rows) {
      if (row != kNoNeuron) {
        const auto of_row = columns_of(rest, row);
        further.insert(further.end(), of_row.begin(), of_row.end());
      }
    }
    std::ranges::sort(further);
    further.erase(std::unique(further.begin(), further.end()), further.end());
    const std::vector<std::int32_t> eights = in_eights(further, eights_of(further.size()), inputs);
    all.row.insert(all.row.end(), rows.begin(), rows.end());
    all.column.insert(all.column.end(), columns.begin(), columns.end());
    all.column.insert(all.column.end(), eights.begin(), eights.end());
    all.column_begin.push_back(std::ssize(all.column));
  };
  for (int b = 0; b < layer.blocks.count(); ++b) {
    add(layer.blocks.rows(b), layer.blocks.columns(b));
    for (const std::int32_t row : layer.blocks.rows(b)) {
      if (row != kNoNeuron) {
        is_in_block[row] = true;
      }
    }
  }
  // Other rows, as many to a block as leave it no more columns than the largest has: all are padded to that.
  std::size_t most = kBlockColumns;
  for (int b = 0; b < all.count(); ++b) {
    most = std::max(most, all.columns(b).size());
  }
  std::vector<std::int32_t> rows;
  std::size_t columns = 0;
  const auto add_rows = [&] {
    if (!rows.empty()) {
      add(in_eights(rows, kBlockRows / kFreePlaces, outputs), {});
    }
    rows.clear();
    columns = 0;
  };
  for (std::int32_t row = 0; row < rest.rows; ++row) {
    const std::size_t of_row = columns_of(rest, row).size();
    if (is_in_block[row] || of_row == 0) {
      continue;
    }
    if (rows.size() == kBlockRows || columns + of_row > most) {
      add_rows();
    }
    rows.push_back(row);
    columns += of_row;
  }
  add_rows();
  layer.blocks = std::move(all);
  layer.weights_in_blocks += rest.nnz();
  rest = {rest.rows, rest.columns, std::vector<std::int64_t>(rest.rows + 1), {}, {}};
}

void absorb_remainder(NetworkStructure& structure) {
  for (std::size_t l = 0; l < structure.layers.size(); ++l) {
    absorb_remainder(structure.layers[l], structure.places[l], structure.places[l + 1]);
  }
}

NetworkStructure find_structure(const FeedForward& network, double least_fill, int threads) {
  const int layers = network.layers();
  NetworkStructure structure{std::vector<LayerStructure>(layers), std::vector<Places>(layers + 1)};
  parallel_for(layers, threads,
               [&](int l) { structure.layers[l] = find_blocks(network.layer(l).weights, least_fill); });
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
