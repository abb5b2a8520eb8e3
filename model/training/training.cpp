// SPDX-License-Identifier: Apache-2.0
#include "model/training/training.hpp"

namespace onchip {

TrainingSize size_of(const Training& training, int layer) {
  const Recurrent& network = training.network;
  return {.input = training.stack.columns(network, layer),
          .hidden = network.hidden,
          .batch = network.batch,
          .steps = network.steps,
          .cell = network.cell,
          .directions = training.stack.directions()};
}

Training training_of(const TrainingSize& size, Precision precision, const SparseMatrix* mask) {
  return {{.cell = size.cell,
           .precision = precision,
           .hidden = size.hidden,
           .batch = size.batch,
           .steps = static_cast<int>(size.steps)},
          {.layers = size.layers, .bidirectional = size.directions == 2, .input = size.input},
          mask == nullptr ? nullptr : std::make_shared<const SparseMatrix>(*mask)};
}

std::string what_lacks_sparse(const Training& training) {
  const Recurrent& network = training.network;
  const bool is_16_bit = network.precision == Precision::fp16 || network.precision == Precision::bf16;
  return network.cell != Cell::lstm || !is_16_bit || training.stack.layers * training.stack.directions() > 1
             ? "a sparse network is trained as one layer and direction of an LSTM in fp16 or bf16"
             : "";
}

}  // namespace onchip
