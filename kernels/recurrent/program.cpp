// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrent/program.hpp"

#include "kernels/dense/program.hpp"
#include "kernels/persistent/types.cuh"
#include "kernels/recurrent/pipelined.hpp"
#include "kernels/recurrent/translation_arguments.hpp"
#include "kernels/sparse/program.hpp"
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace onchip {
namespace {

// Calls ask(geometry) with that of a plan whose kernel is ours.
template <typename Answer, typename Ask>
Answer of_kernel(const Recurrent& network, const RecurrentPlan& plan, const Ask& ask) {
  return std::visit(
      [&](const auto& of_family) -> Answer {
        if constexpr (std::remove_cvref_t<decltype(of_family)>::kIsOnChip) {
          return ask(geometry(network, of_family));
        } else {
          throw InputError("a plan of " + std::string(of_family.kName) +
                           " has no kernel to compile: the library has its own");
        }
      },
      plan);
}

// ---- what a launch reads beside the weights, in owner's order -------------------------------------------------------

void check_biases(const Recurrent& network, const Biases& biases) {
  const auto rows = static_cast<std::size_t>(network.rows());
  for (const std::span<const float> bias : {biases.input, biases.recurrent}) {
    if (!bias.empty() && bias.size() != rows) {
      throw InputError("a bias has " + std::to_string(bias.size()) + " elements; expected " + std::to_string(rows));
    }
  }
}

// [gates * hidden]: all that can be added to the input beforehand.
std::vector<float> bias_of_input(const Recurrent& network, const Biases& biases) {
  std::vector<float> sum(network.rows(), 0.0f);
  const auto add = [&](std::span<const float> bias, std::size_t rows) {
    for (std::size_t row = 0; row < std::min(rows, bias.size()); ++row) {
      sum[row] += bias[row];
    }
  };
  add(biases.input, sum.size());
  add(biases.recurrent, network.cell == Cell::gru ? 2 * static_cast<std::size_t>(network.hidden) : sum.size());
  return sum;
}

// [state units]; `order`: place of each unit in the state.
std::vector<float> bias_of_reset(const Recurrent& network, const StateGeometry& state,
                                 std::span<const std::int32_t> order, const Biases& biases) {
  std::vector<float> bias(state.state_units, 0.0f);
  if (network.cell == Cell::gru && !biases.recurrent.empty()) {
    for (int unit = 0; unit < network.hidden; ++unit) {
      bias[order[unit]] = biases.recurrent[2 * static_cast<std::size_t>(network.hidden) + unit];
    }
  }
  return bias;
}

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

template <typename LayoutOfFamily>
RecurrenceProgram uncompiled(const LayoutOfFamily& layout, const Biases& biases, const std::string& architecture,
                             Work work) {
  const auto& geometry = layout.geometry;
  const int captured_accesses = work == Work::captured ? capture_size(geometry).accesses : 0;
  check_biases(geometry.network, biases);
  const Encoded encoded = encode(layout);
  RecurrenceProgram program;
  program.network = geometry.network;
  program.plan = geometry;
  program.state = geometry;
  program.shape = launch_shape(geometry);
  program.work = work;
  program.captured_accesses = captured_accesses;
  program.has_input_bias = !biases.input.empty() || !biases.recurrent.empty();
  program.kernel_request = compile_request(geometry, architecture, work);
  program.order_request = compile_order_request(geometry, architecture);
  program.constants = {bytes_of(encoded.weights),
                       bytes_of(encoded.streamed),
                       bytes_of(encoded.overflow),
                       bytes_of(gates_of_units(layout)),
                       bytes_of(layout.order),
                       bytes_of(row_places(layout)),
                       bytes_of(bias_of_input(geometry.network, biases)),
                       bytes_of(bias_of_reset(geometry.network, geometry, layout.order, biases)),
                       bytes_of(scales_of_units(layout))};
  return program;
}

// As torch has them: the kernel adds them to what it reads.
std::vector<std::byte> bias_elements(const Recurrent& network, std::span<const float> bias) {
  std::vector<std::uint16_t> elements(static_cast<std::size_t>(network.rows()));
  std::ranges::transform(bias, elements.begin(),
                         [&](float value) { return static_cast<std::uint16_t>(to_bits(network.precision, value)); });
  return bytes_of(elements);
}

RecurrenceProgram uncompiled(const RecurrenceLayout& layout, const Biases& biases, const std::string& architecture,
                             Work work) {
  const RecurrenceGeometry& geometry = layout.geometry;
  check_biases(geometry.network, biases);
  RecurrenceProgram program;
  program.network = geometry.network;
  program.plan = static_cast<const RecurrencePlan&>(geometry);
  program.state = geometry;
  program.shape = launch_shape(geometry);
  program.kernel_request = compile_request(geometry, architecture, work);
  program.order_request = compile_order_request(geometry, architecture);
  program.constants[RecurrenceArray::weights] = bytes_of(layout.words);
  program.constants[RecurrenceArray::input_bias] = bias_elements(geometry.network, biases.input);
  program.constants[RecurrenceArray::recurrent_bias] = bias_elements(geometry.network, biases.recurrent);
  return program;
}

// ---- what a run does ------------------------------------------------------------------------------------------------

// The kernels of a program: that of its family, and the translations (state_order.cu).
enum RecurrenceKernel : int {
  kRecurrence,
  kSetLengths,
  kToInputOrder,
  kToStateOrder,
  kFromStateOrder,
  kToFinalState,
  kToCarryOrder,
  kFromCarryOrder
};
constexpr std::array<const char*, 7> kTranslations{"set_lengths",      "to_input_order", "to_state_order",
                                                   "from_state_order", "to_final_state", "to_carry_order",
                                                   "from_carry_order"};

using Array = RecurrenceArray;

// Of `kernels/persistent/types.cuh`.
template <typename Host, typename Device>
constexpr bool is_same(Host host, Device device) {
  return static_cast<int>(host) == static_cast<int>(device);
}
static_assert(is_same(Precision::fp16, kFp16) && is_same(Precision::bf16, kBf16) && is_same(Precision::fp32, kFp32) &&
              is_same(Precision::fp8, kFp8));
static_assert(is_same(Cell::relu, kRelu) && is_same(Cell::tanh, kTanh) && is_same(Cell::lstm, kLstm) &&
              is_same(Cell::gru, kGru));
static_assert(is_same(Storage::packed_pair, kPackedPair) && is_same(Storage::dense, kDense) &&
              is_same(Storage::packed_delta, kPackedDelta) && is_same(Storage::structured_2_4, kStructured24) &&
              is_same(Storage::bitmap, kBitmap));
static_assert(is_same(ExchangeProtocol::lamport, kLamport) &&
              is_same(ExchangeProtocol::atomic_barrier, kAtomicBarrier) &&
              is_same(ExchangeProtocol::cooperative_barrier, kCooperativeBarrier) &&
              is_same(ExchangeProtocol::cluster, kCluster) && is_same(ExchangeProtocol::bulk_copy, kBulkCopy));

}  // namespace

CompileRequest compile_request(const Recurrent& network, const RecurrentPlan& plan, const std::string& architecture,
                               Work work) {
  return of_kernel<CompileRequest>(network, plan,
                                   [&](const auto& geometry) { return compile_request(geometry, architecture, work); });
}

CompileRequest compile_order_request(const Recurrent& network, const RecurrentPlan& plan,
                                     const std::string& architecture) {
  return of_kernel<CompileRequest>(network, plan,
                                   [&](const auto& geometry) { return compile_order_request(geometry, architecture); });
}

CaptureSize capture_size(const Recurrent& network, const RecurrentPlan& plan) {
  return of_kernel<CaptureSize>(network, plan, [](const auto& geometry) { return capture_size(geometry); });
}

RecurrenceProgram make_uncompiled_program(const Layout& layout, const Biases& biases, const std::string& architecture,
                                          Work work) {
  return std::visit([&](const auto& of_family) { return uncompiled(of_family, biases, architecture, work); }, layout);
}

RecurrenceProgram make_program(const Layout& layout, const Biases& biases, const std::string& architecture, Work work) {
  RecurrenceProgram program = make_uncompiled_program(layout, biases, architecture, work);
  program.kernel = compile(program.kernel_request);
  const ResourceReport& resources = program.kernel.resources;
  if (work != Work::captured && resources.spills()) {
    throw DoesNotFit("the kernel of plan '" + to_string(program.plan) + "' spills " +
                     std::to_string(resources.spill_bytes) + " bytes of registers; a persistent kernel must not");
  }
  program.order = compile(program.order_request);
  return program;
}

std::int64_t RecurrenceProgram::steps_per_launch(std::int64_t most_steps) const {
  if (most_steps < 1) {
    throw InputError("the largest number of steps " + std::to_string(most_steps) +
                     " is out of range: expected 1 or more");
  }
  return std::clamp<std::int64_t>(kMostLaunchBytes / (state.state_stride + state.input_bytes), 1, most_steps);
}

std::size_t RecurrenceProgram::record_words(std::int64_t steps_per_launch) const {
  const std::size_t warps = static_cast<std::size_t>(shape.recorded_sms) * shape.recorded_warps;
  return work == Work::clocked    ? static_cast<std::size_t>(steps_per_launch) * warps * kStepMarks.size()
         : work == Work::captured ? warps * CaptureSize{captured_accesses}.words()
                                  : 0;
}

KernelProgram RecurrenceProgram::kernels_and_arrays(std::int64_t most_steps) const {
  const std::int64_t steps = steps_per_launch(most_steps);
  KernelProgram program;
  program.add_kernel(kernel_request, std::string(shape.kernel));
  const auto* const pipelined = std::get_if<RecurrencePlan>(&plan);
  if (pipelined != nullptr) {
    program.add_kernel(order_request, "prepare");
  } else {
    for (const char* const translation : kTranslations) {
      program.add_kernel(order_request, translation);
    }
  }
  for (const std::vector<std::byte>& constant : constants) {
    program.add_array(constant);
  }
  const std::size_t carry_bytes = sizeof(float) * state.state_units * state.batch_padded;
  program.add_array(static_cast<std::size_t>(steps * state.input_bytes));
  program.add_array(static_cast<std::size_t>(pipelined ? states_bytes(geometry(network, *pipelined), steps)
                                                       : (steps + 1) * state.state_stride));
  program.add_array(carry_bytes);
  program.add_array(carry_bytes);
  program.add_array(sizeof(int) * state.batch_padded);
  program.add_array(static_cast<std::size_t>(state.barrier_bytes));
  program.results = program.add_array(sizeof(std::uint32_t));
  program.add_array(sizeof(std::uint32_t) * record_words(steps));
  return program;
}

// As an argument of a kernel, so that no host memory is read later: neither by the stream nor by a captured graph.
ProgramNode RecurrenceProgram::set_lengths(ArrayPlaces at, const Sequences& sequences) const {
  const int batch = network.batch;
  if (!sequences.lengths.empty() && sequences.lengths.size() != static_cast<std::size_t>(batch)) {
    throw InputError("there are " + std::to_string(sequences.lengths.size()) + " lengths; expected one for each of " +
                     std::to_string(batch) + " samples");
  }
  using Arguments = LengthArguments<kMostSamples>;
  Arguments arguments{array_at<int>(at, Array::lengths), {}};
  for (int sample = 0; sample < batch; ++sample) {
    const std::int64_t length = sequences.lengths.empty() ? sequences.steps : sequences.lengths[sample];
    if (length < 1 || length > sequences.steps || length > 2147483647) {
      throw InputError("the length " + std::to_string(length) + " of sample " + std::to_string(sample) +
                       " is out of range: expected 1 to " + std::to_string(sequences.steps));
    }
    arguments.lengths[sample] = static_cast<int>(length);
  }
  ProgramNode node = launch_node("lengths", kSetLengths, 1, kMostSamples, 0, arguments);
  // As many as the kernel is compiled for, to whole pointers.
  const std::size_t bytes = offsetof(Arguments, lengths) + sizeof(int) * state.batch_padded;
  node.arguments.resize((bytes + alignof(Arguments) - 1) / alignof(Arguments) * alignof(Arguments));
  return node;
}

void RecurrenceProgram::add_launch(std::vector<ProgramNode>& nodes, ArrayPlaces at, std::int64_t first_step,
                                   std::int64_t steps) const {
  const auto stride = static_cast<std::size_t>(state.state_stride);
  if (shape.exchange == ExchangeProtocol::lamport) {
    const auto emptied = static_cast<std::size_t>(std::min<std::int64_t>(steps, kEmptiedAhead));
    nodes.push_back(fill_node("empty states", at[Array::states] + stride, emptied * stride, 0xff));
  } else if (shape.cluster_blocks == 0) {
    nodes.push_back(fill_node("barrier", at[Array::barrier], static_cast<std::size_t>(state.barrier_bytes)));
  }
  const RecurrenceArguments arguments{.weights = array_at<std::uint32_t>(at, Array::weights),
                                      .streamed = array_at<char>(at, Array::streamed),
                                      .overflow = array_at<int>(at, Array::overflow),
                                      .gates = array_at<std::uint32_t>(at, Array::gates),
                                      .scales = array_at<float>(at, Array::scales),
                                      .recurrent_bias = array_at<float>(at, Array::recurrent_bias),
                                      .input = at[Array::input],
                                      .states = at[Array::states],
                                      .carry = array_at<float>(at, Array::carry),
                                      .final_carry = array_at<float>(at, Array::final_carry),
                                      .lengths = array_at<int>(at, Array::lengths),
                                      .first_step = static_cast<int>(first_step),
                                      .steps = static_cast<int>(steps),
                                      .barrier = array_at<std::uint32_t>(at, Array::barrier),
                                      .status = array_at<std::uint32_t>(at, Array::status),
                                      .record = array_at<std::uint32_t>(at, Array::record)};
  nodes.push_back(launch_node("recurrence", kRecurrence, shape.blocks, shape.threads,
                              static_cast<std::size_t>(shape.shared_bytes), arguments));
  nodes.back().cooperative = shape.cluster_blocks == 0;
}

std::vector<ProgramNode> RecurrenceProgram::recurrence_nodes(ArrayPlaces at, std::int64_t steps_per_launch,
                                                             std::int64_t steps) const {
  if (const auto* const pipelined = std::get_if<RecurrencePlan>(&plan)) {
    return pipelined_recurrence(geometry(network, *pipelined), at, steps_per_launch, steps);
  }
  std::vector<ProgramNode> nodes;
  for (std::int64_t first = 0; first < steps; first += steps_per_launch) {
    add_launch(nodes, at, first, std::min(steps_per_launch, steps - first));
  }
  return nodes;
}

std::vector<ProgramNode> RecurrenceProgram::nodes(ArrayPlaces at, std::int64_t steps_per_launch,
                                                  const Sequences& sequences) const {
  constexpr int kOrderThreads = 512;
  if (sequences.steps < 1) {
    return {};
  }
  if (const auto* const pipelined = std::get_if<RecurrencePlan>(&plan)) {
    return pipelined_nodes(geometry(network, *pipelined), at, steps_per_launch, sequences);
  }
  std::vector<ProgramNode> nodes{set_lengths(at, sequences)};
  const auto stride = static_cast<std::size_t>(state.state_stride);
  const auto input_row = static_cast<std::size_t>(state.input_bytes / state.samples);
  std::byte* const states = at[Array::states];
  const int* const unit_order = array_at<int>(at, Array::order);
  TranslationArguments translation{
      {unit_order, nullptr, nullptr, array_at<int>(at, Array::lengths), nullptr, 0, 0, 0, sequences.backward},
      array_at<std::uint32_t>(at, Array::status)};
  const auto translate = [&](RecurrenceKernel which, const void* from, void* to, std::int64_t blocks,
                             std::size_t shared_bytes) {
    translation.from = from;
    translation.to = to;
    nodes.push_back(launch_node("order", which, static_cast<int>(blocks), kOrderThreads, shared_bytes, translation));
  };
  if (sequences.initial) {
    translate(kToStateOrder, sequences.initial, states, 1, 0);
  } else {
    nodes.push_back(fill_node("initial state", states, stride));
  }
  if (info(network.cell).gates > 1) {
    nodes.push_back(fill_node("carry", at[Array::carry], sizeof(float) * state.state_units * state.batch_padded));
    const void* initial = network.cell == Cell::lstm ? sequences.initial_cell : sequences.initial;
    if (initial) {
      translate(kToCarryOrder, initial, at[Array::carry], network.batch, 0);
    }
  }
  for (std::int64_t first = 0; first < sequences.steps; first += steps_per_launch) {
    const std::int64_t count = std::min(steps_per_launch, sequences.steps - first);
    if (first > 0) {  // the last state of a full launch starts the next
      nodes.push_back({.label = "state"});
      nodes.back().from = {states + static_cast<std::size_t>(steps_per_launch) * stride, stride};
      nodes.back().to = states;
    }
    translation.first_step = static_cast<int>(first);
    translation.steps = static_cast<int>(count);
    translation.order = array_at<int>(at, Array::row_places);
    translation.bias = has_input_bias ? array_at<float>(at, Array::input_bias) : nullptr;
    translation.stride = sequences.input_stride != 0 ? sequences.input_stride : network.rows();
    translate(kToInputOrder, sequences.input, at[Array::input], count * state.samples, (input_row + 15) / 16 * 16);
    translation.order = unit_order;
    add_launch(nodes, at, first, count);
    if (sequences.output) {
      translation.stride = sequences.output_stride != 0 ? sequences.output_stride : network.hidden;
      translate(kFromStateOrder, states + stride, sequences.output, count,
                static_cast<std::size_t>(shape.staged_bytes));
    }
    if (sequences.final_state) {
      translate(kToFinalState, states, sequences.final_state, network.batch, 0);
    }
  }
  if (sequences.final_cell && network.cell == Cell::lstm) {
    translate(kFromCarryOrder, at[Array::final_carry], sequences.final_cell, network.batch, 0);
  }
  return nodes;
}

}  // namespace onchip
