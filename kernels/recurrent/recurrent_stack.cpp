// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrent/recurrent_stack.hpp"

#include "model/base/error.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>

namespace onchip {
namespace {

constexpr std::int64_t kStepsPerLaunch = 2048;  // each recurrence has a workspace of its own

void check_size(const std::string& what, std::size_t found, std::size_t expected) {
  if (found != expected) {
    throw InputError(what + " has " + std::to_string(found) + " elements; expected " + std::to_string(expected));
  }
}

void check_range(const std::string& what, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) {
    throw InputError(what + " " + std::to_string(value) + " is out of range: expected 1 to " + std::to_string(most));
  }
}

int layer_input(const Recurrent& network, int input_size, int directions, std::size_t layer) {
  return layer == 0 ? input_size : directions * network.hidden;
}

// What all layers and directions share.
Recurrent common_network(int input_size, int directions, std::span<const StackWeights> weights,
                         std::int64_t most_steps) {
  check_range("the number of directions", directions, 2);
  check_range("the input size", input_size, std::numeric_limits<int>::max());
  if (weights.empty() || weights.size() % directions != 0) {
    throw InputError("there are weights for " + std::to_string(weights.size()) +
                     " directions of layers; expected a multiple of " + std::to_string(directions) + ", at least one");
  }
  for (std::size_t place = 0; place < weights.size(); ++place) {
    const std::size_t layer = place / directions;
    const std::string where =
        "layer " + std::to_string(layer) + (place % directions == 0 ? ", forward: " : ", backward: ");
    const StackWeights& own = weights[place];
    if (own.recurrent == nullptr) {
      throw InputError(where + "there are no recurrent weights");
    }
    const Recurrent& network = network_of(*own.recurrent);
    const Recurrent& first = network_of(*weights[0].recurrent);
    if (network.cell != first.cell || network.precision != first.precision || network.hidden != first.hidden ||
        network.batch != first.batch) {
      throw InputError(where + "the network is " + describe(network) + "; that of the first layer is " +
                       describe(first));
    }
    const auto rows = static_cast<std::size_t>(network.rows());
    check_size(where + "the matrix of input weights", own.input.size(),
               rows * layer_input(network, input_size, directions, layer));
    for (const std::span<const float> bias : {own.biases.input, own.biases.recurrent}) {
      check_size(where + "a bias", bias.size(), bias.empty() ? 0 : rows);
    }
  }
  // Columns of a product are counted by an int.
  const Recurrent& network = network_of(*weights[0].recurrent);
  check_range("the largest number of steps", most_steps, std::numeric_limits<int>::max() / network.batch);
  device_info();  // these say what is missing before anything else can fail
  Cublas::require();
  return network;
}

template <typename Pointer>
Pointer* offset(Pointer* base, std::size_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<Pointer>, const std::byte, std::byte>;
  return base == nullptr ? nullptr : static_cast<Byte*>(base) + bytes;
}

}  // namespace

RecurrentStack::RecurrentStack(int input_size, int directions, std::span<const StackWeights> weights,
                               std::int64_t most_steps)
    : network_(common_network(input_size, directions, weights, most_steps)),
      directions_(directions),
      most_steps_(most_steps),
      projected_(static_cast<std::size_t>(most_steps) * network_.batch * directions * network_.rows() *
                 info(network_.precision).bytes),
      between_(weights.size() <= static_cast<std::size_t>(directions)
                   ? 0
                   : static_cast<std::size_t>(most_steps) * network_.batch * directions * network_.hidden *
                         info(network_.precision).bytes),
      cublas_(/*allows_short_sums=*/false) {
  recurrences_.reserve(weights.size());
  for (std::size_t first = 0; first < weights.size(); first += directions) {
    std::vector<float> values;  // those of the directions, one below the other
    for (const StackWeights& own : weights.subspan(first, directions)) {
      values.insert(values.end(), own.input.begin(), own.input.end());
      recurrences_.emplace_back(*own.recurrent, own.biases, std::min(most_steps, kStepsPerLaunch));
    }
    input_weights_.push_back({layer_input(network_, input_size, directions, first / directions),
                              DeviceBuffer<std::byte>(to_elements(values, network_.precision))});
  }
  // Uploads from pageable memory may still be on their way, and not every stream waits for them.
  ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());
}

void RecurrentStack::check(const StackSequences& sequences) const {
  check_range("the number of steps", sequences.steps, most_steps_);
  if (sequences.input == nullptr) {
    throw InputError("the stack has no input");
  }
  if (network_.cell != Cell::lstm && (sequences.initial_cell != nullptr || sequences.final_cell != nullptr)) {
    throw InputError("the cell '" + std::string(info(network_.cell).name) + "' has no cell state");
  }
}

// Row-major [steps * batch, rows] = input [steps * batch, columns] times W^T, which cuBLAS sees column-major.
void RecurrentStack::project(const InputWeights& weights, const void* input, std::int64_t steps) const {
  const int rows = directions_ * network_.rows();
  cublas_.multiply({.rows = rows,
                    .columns = static_cast<int>(steps) * network_.batch,
                    .depth = weights.columns,
                    .precision = network_.precision,
                    .transposed = true,
                    .a = weights.elements.data(),
                    .leading_a = weights.columns,
                    .b = input,
                    .leading_b = weights.columns,
                    .c = projected_.data(),
                    .leading_c = rows});
}

void RecurrentStack::enqueue(cudaStream_t stream, const StackSequences& sequences) {
  check(sequences);
  cublas_.use(stream);
  const auto bytes = static_cast<std::size_t>(info(network_.precision).bytes);
  const std::size_t state_bytes = bytes * network_.batch * network_.hidden;
  const void* input = sequences.input;
  for (std::size_t layer = 0; layer < input_weights_.size(); ++layer) {
    project(input_weights_[layer], input, sequences.steps);
    // The projection is done with the output of the layer before when this layer's takes its place.
    void* const output = layer + 1 == input_weights_.size() ? sequences.output : between_.data();
    for (int direction = 0; direction < directions_; ++direction) {
      const std::size_t place = layer * directions_ + direction;
      Sequences own;
      own.steps = sequences.steps;
      own.input = projected_.data() + bytes * direction * network_.rows();
      own.input_stride = std::int64_t{directions_} * network_.rows();
      own.initial = offset(sequences.initial, place * state_bytes);
      own.initial_cell = offset(sequences.initial_cell, place * state_bytes);
      own.output = offset(output, bytes * direction * network_.hidden);
      own.output_stride = std::int64_t{directions_} * network_.hidden;
      own.final_state = offset(sequences.final_state, place * state_bytes);
      own.final_cell = offset(sequences.final_cell, place * state_bytes);
      own.lengths = sequences.lengths;
      own.backward = direction == 1;
      recurrences_[place].enqueue(stream, own);
    }
    input = output;
  }
}

void RecurrentStack::check_status() const {
  for (const PersistentKernel& recurrence : recurrences_) {
    recurrence.check_status();
  }
}

}  // namespace onchip
