// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrent/pipelined.hpp"

#include "kernels/training/training_program.hpp"
#include "model/base/error.hpp"
#include "model/training/memory.hpp"

#include <algorithm>

namespace onchip {
namespace {

using Array = RecurrenceArray;
enum PipelinedKernel : int { kPipelinedRecurrence, kPrepareRing };

constexpr std::int64_t kElementBytes = 2;

std::int64_t ring_bytes(const RecurrenceGeometry& geometry) {
  return static_cast<std::int64_t>(geometry.shape.ring_bytes);
}

// A launch of so many steps, each of which has its gates in the array of inputs.
struct PipelinedLaunch {
  const RecurrenceGeometry& geometry;
  ArrayPlaces at;
  std::int64_t steps = 0;
  void* output = nullptr;  // [steps, batch, hidden]; null: not wanted
  const void *initial = nullptr, *initial_cell = nullptr;
  void *final_state = nullptr, *final_cell = nullptr;
  bool backward = false, has_before = false, has_after = false;
  int first_sample = 0;  // of this part of them

  TrainingArguments arguments() const {
    float* const carry = array_at<float>(at, Array::carry);
    std::byte* const exchanged = at[Array::final_carry];  // h between launches
    return {.weights = nullptr,
            .packed = array_at<unsigned>(at, Array::weights),
            .ring = array_at<char>(at, Array::states),
            .gates = at[Array::input],
            .cells = nullptr,
            .last_cells = nullptr,
            .output = output != nullptr ? output : at[Array::states] + ring_bytes(geometry),
            .initial = has_before ? exchanged : initial,
            .initial_cell = initial_cell,
            .final_state = has_after ? exchanged : final_state,
            .final_cell = has_after ? nullptr : final_cell,
            .initial_carry = has_before ? carry : nullptr,
            .final_carry = has_after ? carry : nullptr,
            .input_bias = at[Array::input_bias],
            .recurrent_bias = at[Array::recurrent_bias],
            .output_gradient = nullptr,
            .final_gradient = nullptr,
            .final_cell_gradient = nullptr,
            .initial_gradient = nullptr,
            .initial_cell_gradient = nullptr,
            .bias_sums = nullptr,
            .input_bias_gradient = nullptr,
            .recurrent_bias_gradient = nullptr,
            .lengths = nullptr,
            .ranks = nullptr,
            .steps = steps,
            .batch = geometry.network.batch,
            .keeps = 0,
            .continues = 0,
            .descends = backward,
            .packed_rows = static_cast<int>(-steps * geometry.network.batch),
            .first_sample = first_sample,
            .status = array_at<unsigned>(at, Array::status),
            .copies = {}};
  }

  // Empties the ring, and copies each gate's input, [steps, batch, hidden] with `stride` elements from one sample to
  // the next, to where the kernel reads it.
  ProgramNode prepare(const std::byte* input, std::int64_t stride) const {
    constexpr int kPrepareThreads = 256, kPrepareBlocks = 528;
    const Recurrent& network = geometry.network;
    const std::int64_t columns = aligned_columns(network.hidden);
    TrainingArguments of = arguments();
    for (int gate = 0; input != nullptr && gate < info(network.cell).gates; ++gate) {
      of.copies[gate] = {.from = input + kElementBytes * gate * network.hidden,
                         .to = at[Array::input] + kElementBytes * gate * columns,
                         .rows = steps * network.batch,
                         .from_stride = static_cast<int>(stride),
                         .to_stride = static_cast<int>(kKeptValues * columns),
                         .columns = network.hidden,
                         .written_columns = static_cast<int>(columns)};
    }
    return launch_node("prepare", kPrepareRing, kPrepareBlocks, kPrepareThreads, 0, of);
  }

  // Both, for one part of the samples after another.
  void add_to(std::vector<ProgramNode>& nodes, const std::byte* input, std::int64_t stride) {
    nodes.push_back(prepare(input, stride));
    nodes.push_back(recurrence());
    while ((first_sample += geometry.shape.launch_samples) < geometry.network.batch) {
      nodes.push_back(prepare(nullptr, 0));
      nodes.push_back(recurrence());
    }
  }

  ProgramNode recurrence() const {
    ProgramNode node = launch_node("recurrence", kPipelinedRecurrence, geometry.shape.blocks, geometry.shape.threads,
                                   geometry.shape.shared_bytes, arguments());
    node.cooperative = true;
    return node;
  }
};

}  // namespace

CompileRequest compile_request(const RecurrenceGeometry& geometry, const std::string& architecture, Work work) {
  if (work != Work::whole) {
    throw InputError("a plan of " + std::string(RecurrencePlan::kName) + " is run whole, without clocks or captures");
  }
  return compile_request(training_size(geometry.network), geometry.network.precision, geometry, false, architecture);
}

CompileRequest compile_order_request(const RecurrenceGeometry& geometry, const std::string& architecture) {
  return compile_request(geometry, architecture, Work::whole);  // the same source has what prepares
}

LaunchShape launch_shape(const RecurrenceGeometry& geometry) {
  return {.kernel = "recurrence",
          .blocks = geometry.shape.blocks,
          .threads = geometry.shape.threads,
          .shared_bytes = static_cast<std::int64_t>(geometry.shape.shared_bytes)};
}

CaptureSize capture_size(const RecurrenceGeometry&) {
  throw InputError("a plan of " + std::string(RecurrencePlan::kName) + " cannot be captured");
}

std::int64_t states_bytes(const RecurrenceGeometry& geometry, std::int64_t steps) {
  return ring_bytes(geometry) + kElementBytes * steps * geometry.network.batch * geometry.network.hidden;
}

std::vector<ProgramNode> pipelined_nodes(const RecurrenceGeometry& geometry, ArrayPlaces at,
                                         std::int64_t steps_per_launch, const Sequences& sequences) {
  const Recurrent& network = geometry.network;
  if (!sequences.lengths.empty() || (sequences.output_stride != 0 && sequences.output_stride != network.hidden)) {
    throw InputError("a plan of " + std::string(RecurrencePlan::kName) +
                     " takes samples that are equally long, whose outputs lie side by side");
  }
  const std::int64_t stride = sequences.input_stride != 0 ? sequences.input_stride : network.rows();
  std::vector<ProgramNode> nodes;
  for (std::int64_t done = 0; done < sequences.steps; done += steps_per_launch) {
    const std::int64_t steps = std::min(steps_per_launch, sequences.steps - done);
    const std::int64_t samples = (sequences.backward ? sequences.steps - done - steps : done) * network.batch;
    const auto* const input = static_cast<const std::byte*>(sequences.input);
    auto* const output = static_cast<std::byte*>(sequences.output);
    PipelinedLaunch launch{.geometry = geometry,
                           .at = at,
                           .steps = steps,
                           .output = output == nullptr ? nullptr : output + kElementBytes * samples * network.hidden,
                           .initial = sequences.initial,
                           .initial_cell = sequences.initial_cell,
                           .final_state = sequences.final_state,
                           .final_cell = sequences.final_cell,
                           .backward = sequences.backward,
                           .has_before = done > 0,
                           .has_after = done + steps < sequences.steps};
    if (input == nullptr) {
      nodes.push_back(fill_node("input", at[Array::input], static_cast<std::size_t>(steps * geometry.input_bytes)));
    }
    launch.add_to(nodes, input == nullptr ? nullptr : input + kElementBytes * samples * stride, stride);
  }
  return nodes;
}

std::vector<ProgramNode> pipelined_recurrence(const RecurrenceGeometry& geometry, ArrayPlaces at,
                                              std::int64_t steps_per_launch, std::int64_t steps) {
  std::vector<ProgramNode> nodes;
  for (std::int64_t done = 0; done < steps; done += steps_per_launch) {
    PipelinedLaunch launch{.geometry = geometry, .at = at, .steps = std::min(steps_per_launch, steps - done)};
    launch.add_to(nodes, nullptr, 0);
  }
  return nodes;
}

}  // namespace onchip
