// SPDX-License-Identifier: Apache-2.0
// What a run of a recurrence does: fills, copies and launches, one after the other, on whatever executes them. A GPU's
// stream does (recurrence.cpp), and so does host memory with an interpreter of the kernels
// (experiments/measurement/interpreted/interpret.cpp).
//
// A Device has
//   void fill(void* to, int byte, std::size_t bytes);
//   void upload(void* to, const void* host, std::size_t bytes);
//   void copy(void* to, const void* from, std::size_t bytes);
//   void launch(Entry entry, int blocks, int threads, std::size_t shared_bytes, bool cooperative, const A& arguments);
#pragma once

#include "kernels/recurrent/recurrence.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace onchip {

// The kernels of a program: that of its family, and the translations (state_order.cu).
enum class Entry : std::uint8_t {
  recurrence,
  set_lengths,
  to_input_order,
  to_state_order,
  from_state_order,
  to_final_state,
  to_carry_order,
  from_carry_order
};
inline constexpr std::array<std::string_view, 8> kEntryNames{"",  // the family's
                                                             "set_lengths",
                                                             "to_input_order",
                                                             "to_state_order",
                                                             "from_state_order",
                                                             "to_final_state",
                                                             "to_carry_order",
                                                             "from_carry_order"};

// These mirror the kernels' argument structs.
struct RecurrenceArguments {
  const std::uint32_t* weights;
  const std::uint32_t* streamed;
  const std::int32_t* overflow;
  const std::uint32_t* gates;
  const float* scales;
  const float* recurrent_bias;
  const void* input;
  void* states;
  float* carry;
  float* final_carry;
  const int* lengths;
  int first_step;
  int steps;
  std::uint32_t* barrier;
  std::uint32_t* status;
  std::uint32_t* record;
};
struct LengthArguments {
  int* to;
  int lengths[kMostSamples];
};
struct OrderArguments {
  const std::int32_t* order;
  const void* from;
  void* to;
  const int* lengths;
  const float* bias;
  long long stride;
  int first_step;
  int steps;
  int backward;
};

// A program's runs in one workspace; workspace and arrays are in memory of the device.
template <typename Device>
class RecurrenceRun {
 public:
  RecurrenceRun(Device& device, const Program& program, const ScratchPlaces& scratch, std::byte* workspace)
      : device_(device), program_(program), scratch_(scratch), workspace_(workspace) {}

  // Once, before the first run.
  void fill_workspace() const {
    const std::size_t bytes = program_.constants.size();
    device_.upload(workspace_, program_.constants.data(), bytes);
    // All of the scratch, so that a run that was never given an input has one: zeros.
    device_.fill(workspace_ + bytes, 0, scratch_.bytes - bytes);
  }

  void enqueue(const Sequences& sequences) const;
  void launch(std::int64_t first_step, std::int64_t steps) const;

 private:
  void set_lengths(const Sequences& sequences) const;
  template <typename T>
  T* at(std::size_t place) const {
    return reinterpret_cast<T*>(workspace_ + place);
  }

  Device& device_;
  const Program& program_;
  const ScratchPlaces& scratch_;
  std::byte* workspace_;
};

// As an argument of a kernel, so that no host memory is read later: neither by the stream nor by a captured graph.
template <typename Device>
void RecurrenceRun<Device>::set_lengths(const Sequences& sequences) const {
  const int batch = program_.network.batch;
  if (!sequences.lengths.empty() && sequences.lengths.size() != static_cast<std::size_t>(batch)) {
    throw InputError("there are " + std::to_string(sequences.lengths.size()) + " lengths; expected one for each of " +
                     std::to_string(batch) + " samples");
  }
  LengthArguments arguments{at<int>(scratch_.lengths), {}};
  for (int sample = 0; sample < batch; ++sample) {
    const std::int64_t length = sequences.lengths.empty() ? sequences.steps : sequences.lengths[sample];
    if (length < 1 || length > sequences.steps || length > 2147483647) {
      throw InputError("the length " + std::to_string(length) + " of sample " + std::to_string(sample) +
                       " is out of range: expected 1 to " + std::to_string(sequences.steps));
    }
    arguments.lengths[sample] = static_cast<int>(length);
  }
  device_.launch(Entry::set_lengths, 1, kMostSamples, 0, /*cooperative=*/false, arguments);
}

template <typename Device>
void RecurrenceRun<Device>::launch(std::int64_t first_step, std::int64_t steps) const {
  const ConstantPlaces& constants = program_.places;
  const LaunchShape& shape = program_.shape;
  const auto state = static_cast<std::size_t>(program_.state.state_stride);
  if (shape.exchange == ExchangeProtocol::lamport) {
    const std::int64_t emptied = std::min<std::int64_t>(steps, kEmptiedAhead);
    device_.fill(at<std::byte>(scratch_.states) + state, 0xff, emptied * state);
  } else if (shape.cluster_blocks == 0) {
    device_.fill(at<std::uint32_t>(scratch_.barrier), 0, static_cast<std::size_t>(program_.state.barrier_bytes));
  }
  const RecurrenceArguments arguments{.weights = at<std::uint32_t>(constants.weights),
                                      .streamed = at<std::uint32_t>(constants.streamed),
                                      .overflow = at<std::int32_t>(constants.overflow),
                                      .gates = at<std::uint32_t>(constants.gates),
                                      .scales = at<float>(constants.scales),
                                      .recurrent_bias = at<float>(constants.recurrent_bias),
                                      .input = at<std::byte>(scratch_.input),
                                      .states = at<std::byte>(scratch_.states),
                                      .carry = at<float>(scratch_.carry),
                                      .final_carry = at<float>(scratch_.final_carry),
                                      .lengths = at<int>(scratch_.lengths),
                                      .first_step = static_cast<int>(first_step),
                                      .steps = static_cast<int>(steps),
                                      .barrier = at<std::uint32_t>(scratch_.barrier),
                                      .status = at<std::uint32_t>(scratch_.status),
                                      .record = at<std::uint32_t>(scratch_.record)};
  device_.launch(Entry::recurrence, shape.blocks, shape.threads, static_cast<std::size_t>(shape.shared_bytes),
                 /*cooperative=*/shape.cluster_blocks == 0, arguments);
}

template <typename Device>
void RecurrenceRun<Device>::enqueue(const Sequences& sequences) const {
  constexpr int kOrderThreads = 512;
  if (sequences.steps < 1) {
    return;
  }
  set_lengths(sequences);
  const Recurrent& network = program_.network;
  const auto state = static_cast<std::size_t>(program_.state.state_stride);
  const auto input_row = static_cast<std::size_t>(program_.state.input_bytes / network.batch);
  const std::int64_t steps_per_launch = scratch_.steps_per_launch;
  std::byte* const states = at<std::byte>(scratch_.states);
  float* const carry = at<float>(scratch_.carry);
  const std::int32_t* const unit_order = at<std::int32_t>(program_.places.order);
  OrderArguments order{unit_order, nullptr, nullptr, at<int>(scratch_.lengths), nullptr, 0, 0, 0, sequences.backward};
  const auto translate = [&](Entry entry, const void* from, void* to, std::int64_t blocks, std::size_t smem_bytes) {
    order.from = from;
    order.to = to;
    device_.launch(entry, static_cast<int>(blocks), kOrderThreads, smem_bytes, /*cooperative=*/false, order);
  };
  if (sequences.initial) {
    translate(Entry::to_state_order, sequences.initial, states, 1, 0);
  } else {
    device_.fill(states, 0, state);
  }
  if (info(network.cell).gates > 1) {
    const std::size_t carry_bytes = sizeof(float) * program_.state.state_units * program_.state.batch_padded;
    device_.fill(carry, 0, carry_bytes);
    const void* initial = network.cell == Cell::lstm ? sequences.initial_cell : sequences.initial;
    if (initial) {
      translate(Entry::to_carry_order, initial, carry, network.batch, 0);
    }
  }
  for (std::int64_t first = 0; first < sequences.steps; first += steps_per_launch) {
    const std::int64_t count = std::min(steps_per_launch, sequences.steps - first);
    if (first > 0) {  // the last state of a full launch starts the next
      device_.copy(states, states + steps_per_launch * state, state);
    }
    order.first_step = static_cast<int>(first);
    order.steps = static_cast<int>(count);
    order.order = at<std::int32_t>(program_.places.row_places);
    order.bias = program_.has_input_bias ? at<float>(program_.places.input_bias) : nullptr;
    order.stride = sequences.input_stride != 0 ? sequences.input_stride : network.rows();
    translate(Entry::to_input_order, sequences.input, at<std::byte>(scratch_.input), count * network.batch,
              (input_row + 15) / 16 * 16);
    order.order = unit_order;
    launch(first, count);
    if (sequences.output) {
      order.stride = sequences.output_stride != 0 ? sequences.output_stride : network.hidden;
      translate(Entry::from_state_order, states + state, sequences.output, count,
                static_cast<std::size_t>(program_.shape.staged_bytes));
    }
    if (sequences.final_state) {
      translate(Entry::to_final_state, states, sequences.final_state, network.batch, 0);
    }
  }
  if (sequences.final_cell && network.cell == Cell::lstm) {
    translate(Entry::from_carry_order, at<float>(scratch_.final_carry), sequences.final_cell, network.batch, 0);
  }
}

}  // namespace onchip
