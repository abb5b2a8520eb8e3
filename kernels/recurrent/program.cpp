// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrent/program.hpp"

#include "kernels/dense/program.hpp"
#include "kernels/sparse/program.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

namespace onchip {
namespace {

// Calls ask(geometry) with that of a plan whose kernel is ours.
template <typename Answer, typename Ask>
Answer of_kernel(const Recurrent& network, const Plan& plan, const Ask& ask) {
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

std::size_t aligned(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

template <typename T>
std::size_t append(std::vector<std::byte>& constants, const std::vector<T>& values) {
  const std::size_t place = constants.size();
  constants.resize(place + aligned(values.size() * sizeof(T)));
  if (!values.empty()) {
    std::memcpy(constants.data() + place, values.data(), values.size() * sizeof(T));
  }
  return place;
}

template <typename LayoutOfFamily>
Program uncompiled(const LayoutOfFamily& layout, const Biases& biases, Work work) {
  const auto& geometry = layout.geometry;
  check_work(geometry, work);
  check_biases(geometry.network, biases);
  const Encoded encoded = encode(layout);
  Program program;
  program.network = geometry.network;
  program.plan = geometry;
  program.state = geometry;
  program.shape = launch_shape(geometry);
  program.work = work;
  program.captured_accesses = work == Work::captured ? capture_size(geometry).accesses : 0;
  program.has_input_bias = !biases.input.empty() || !biases.recurrent.empty();
  std::vector<std::byte>& constants = program.constants;
  program.places = {
      .weights = append(constants, encoded.weights),
      .streamed = append(constants, encoded.streamed),
      .overflow = append(constants, encoded.overflow),
      .gates = append(constants, gates_of_units(layout)),
      .order = append(constants, layout.order),
      .row_places = append(constants, row_places(layout)),
      .input_bias = append(constants, bias_of_input(geometry.network, biases)),
      .recurrent_bias = append(constants, bias_of_reset(geometry.network, geometry, layout.order, biases)),
      .scales = append(constants, scales_of_units(layout))};
  return program;
}

}  // namespace

CompileRequest compile_request(const Recurrent& network, const Plan& plan, const std::string& architecture, Work work) {
  return of_kernel<CompileRequest>(network, plan,
                                   [&](const auto& geometry) { return compile_request(geometry, architecture, work); });
}

CompileRequest compile_order_request(const Recurrent& network, const Plan& plan, const std::string& architecture) {
  return of_kernel<CompileRequest>(network, plan,
                                   [&](const auto& geometry) { return compile_order_request(geometry, architecture); });
}

CaptureSize capture_size(const Recurrent& network, const Plan& plan) {
  return of_kernel<CaptureSize>(network, plan, [](const auto& geometry) { return capture_size(geometry); });
}

Program make_uncompiled_program(const Layout& layout, const Biases& biases, Work work) {
  return std::visit([&](const auto& of_family) { return uncompiled(of_family, biases, work); }, layout);
}

Program make_program(const Layout& layout, const Biases& biases, const std::string& architecture, Work work) {
  Program program = make_uncompiled_program(layout, biases, work);
  program.kernel = compile(compile_request(program.network, program.plan, architecture, work));
  const ResourceReport& resources = program.kernel.resources;
  if (work != Work::captured && resources.spills()) {
    throw DoesNotFit("the kernel of plan '" + to_string(program.plan) + "' spills " +
                     std::to_string(resources.spill_bytes) + " bytes of registers; a persistent kernel must not");
  }
  program.order_cubin = compile(compile_order_request(program.network, program.plan, architecture)).cubin;
  return program;
}

std::size_t record_words(const Program& program, std::int64_t steps_per_launch) {
  const std::size_t warps = static_cast<std::size_t>(program.shape.recorded_sms) * program.shape.recorded_warps;
  return program.work == Work::clocked    ? static_cast<std::size_t>(steps_per_launch) * warps * kStepMarks.size()
         : program.work == Work::captured ? warps * CaptureSize{program.captured_accesses}.words()
                                          : 0;
}

ScratchPlaces scratch_places(const Program& program, std::int64_t most_steps) {
  if (most_steps < 1) {
    throw InputError("the largest number of steps " + std::to_string(most_steps) +
                     " is out of range: expected 1 or more");
  }
  const std::int64_t state = program.state.state_stride, input = program.state.input_bytes;
  ScratchPlaces places;
  places.steps_per_launch = std::clamp<std::int64_t>(kMostLaunchBytes / (state + input), 1, most_steps);
  std::size_t end = program.constants.size();
  const auto take = [&](std::int64_t bytes) {
    const std::size_t place = end;
    end += aligned(static_cast<std::size_t>(bytes));
    return place;
  };
  const std::int64_t carry = std::int64_t{4} * program.state.state_units * program.state.batch_padded;
  places.input = take(places.steps_per_launch * input);
  places.states = take((places.steps_per_launch + 1) * state);
  places.carry = take(carry);
  places.final_carry = take(carry);
  places.lengths = take(4 * program.state.batch_padded);
  places.barrier = take(program.state.barrier_bytes);
  places.status = take(4);
  places.record = take(4 * static_cast<std::int64_t>(record_words(program, places.steps_per_launch)));
  places.bytes = end;
  return places;
}

}  // namespace onchip
