// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/network.hpp"

#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace onchip {

bool wakes_zeros(const SparseLayer& layer) {
  return std::ranges::any_of(layer.bias, [&](float bias) { return !(layer.is_linear ? bias == 0 : bias <= 0); });
}

void check(const SparseLayer& layer) {
  const SparseMatrix& weights = layer.weights;
  if (weights.rows < 1 || weights.columns < 1) {
    throw InputError("a layer has at least one output and one input; found [" + std::to_string(weights.rows) + ", " +
                     std::to_string(weights.columns) + "]");
  }
  const auto rows = static_cast<std::size_t>(weights.rows);
  if (weights.row_begin.size() != rows + 1 || weights.row_begin.front() != 0 ||
      weights.row_begin.back() != weights.nnz() || weights.value.size() != weights.column.size() ||
      !std::ranges::is_sorted(weights.row_begin)) {
    throw InputError("the rows of a layer do not match its " + std::to_string(weights.nnz()) + " weights");
  }
  if (layer.bias.size() != 1 && layer.bias.size() != rows) {
    throw InputError("a layer has one bias, or one of each of its " + std::to_string(rows) + " outputs; found " +
                     std::to_string(layer.bias.size()));
  }
  for (int row = 0; row < weights.rows; ++row) {
    for (std::int64_t i = weights.row_begin[row]; i < weights.row_begin[row + 1]; ++i) {
      const std::int32_t least = i == weights.row_begin[row] ? 0 : weights.column[i - 1] + 1;
      if (weights.column[i] < least || weights.column[i] >= weights.columns) {
        throw InputError("the columns of row " + std::to_string(row) + " do not ascend within the layer's " +
                         std::to_string(weights.columns) + " inputs");
      }
    }
  }
}

void check_representable(const SparseLayer& layer, Precision precision, std::string_view who) {
  const SparseMatrix& weights = layer.weights;
  for (int row = 0; row < weights.rows; ++row) {
    for (std::int64_t i = weights.row_begin[row]; i < weights.row_begin[row + 1]; ++i) {
      if (!std::isfinite(round_to(precision, weights.value[i]))) {
        throw InputError(std::string(who) + ": the weight of output " + std::to_string(row) + " and input " +
                         std::to_string(weights.column[i]) + ", " + format_number(weights.value[i]) + ", is beyond " +
                         std::string(info(precision).name) + "; store weights as bf16 or fp32");
      }
    }
  }
}

FeedForward first_layers(FeedForward network, int layers) {
  if (layers < 0 || layers > network.layers()) {
    throw InputError("the network has " + std::to_string(network.layers()) + " layers; found a request for the " +
                     "features after " + std::to_string(layers));
  }
  network.neurons.resize(static_cast<std::size_t>(layers) + 1);
  return network;
}

FeedForward stored_network(std::string name, std::vector<SparseLayer> layers, float clip) {
  FeedForward network{std::move(name), {}, clip, {}};
  for (const SparseLayer& layer : layers) {
    check(layer);
    if (!network.neurons.empty() && network.neurons.back() != layer.weights.columns) {
      throw InputError("layer " + std::to_string(network.neurons.size()) + " takes " +
                       std::to_string(layer.weights.columns) + " inputs, but the layer before it has " +
                       std::to_string(network.neurons.back()) + " outputs");
    }
    if (network.neurons.empty()) {
      network.neurons.push_back(layer.weights.columns);
    }
    network.neurons.push_back(layer.weights.rows);
  }
  if (layers.empty()) {
    throw InputError("a network has at least one layer");
  }
  network.layer = [kept = std::make_shared<const std::vector<SparseLayer>>(std::move(layers))](int l) {
    return kept->at(static_cast<std::size_t>(l));
  };
  return network;
}

}  // namespace onchip
