// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrent/kernel_files.hpp"

#include "kernels/dense/program.hpp"
#include "kernels/sparse/program.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <variant>

namespace onchip {
namespace {

constexpr std::string_view kDefine = "-D";

// What is in the workspace.
struct Buffer {
  std::string_view name;
  std::string_view type;
  Json shape;
  std::string_view filled;
};

// In the order of RecurrenceArray.
std::vector<Buffer> buffers(const RecurrenceProgram& program, std::int64_t steps) {
  constexpr std::string_view kFile = "file", kZero = "zero";
  const int hidden = program.network.hidden, gates = info(program.network.cell).gates;
  const int units = program.state.state_units, padded = program.state.batch_padded;
  const std::string_view state = info(state_type(program.network.precision)).name;
  const Json words = Json::array();  // laid out for the kernel alone
  return {{"weights", "u32", words, kFile},
          {"streamed", "u32", words, kFile},
          {"overflow", "i32", words, kFile},
          {"gates", "u32", words, kFile},
          {"order", "i32", {hidden}, kFile},
          {"row_places", "i32", {gates, hidden}, kFile},
          {"input_bias", "fp32", {gates, hidden}, kFile},
          {"recurrent_bias", "fp32", {units}, kFile},
          {"scales", "fp32", words, kFile},
          {"input", state, {steps, program.state.samples, units * gates}, "input"},
          {"states", state, {steps + 1, program.state.state_stride}, kZero},
          {"carry", "fp32", {units, padded}, kZero},
          {"final_carry", "fp32", {units, padded}, kZero},
          {"lengths", "i32", {padded}, "steps"},
          {"barrier", "u32", words, kZero},
          {"status", "u32", {1}, kZero},
          {"record", "u32", {0}, kZero}};
}

// The members of the struct that is the kernel's one argument: pointers to buffers, or values.
Json argument(std::int64_t steps) {
  Json members = Json::array();
  const auto pointer = [&](std::string_view name, std::size_t at) {
    members.push_back({{"name", name}, {"at", at}, {"bytes", sizeof(void*)}, {"buffer", name}});
  };
  const auto value = [&](std::string_view name, std::size_t at, std::int64_t of) {
    members.push_back({{"name", name}, {"at", at}, {"bytes", sizeof(int)}, {"value", of}});
  };
  using A = RecurrenceArguments;
  pointer("weights", offsetof(A, weights));
  pointer("streamed", offsetof(A, streamed));
  pointer("overflow", offsetof(A, overflow));
  pointer("gates", offsetof(A, gates));
  pointer("scales", offsetof(A, scales));
  pointer("recurrent_bias", offsetof(A, recurrent_bias));
  pointer("input", offsetof(A, input));
  pointer("states", offsetof(A, states));
  pointer("carry", offsetof(A, carry));
  pointer("final_carry", offsetof(A, final_carry));
  pointer("lengths", offsetof(A, lengths));
  value("first_step", offsetof(A, first_step), 0);
  value("steps", offsetof(A, steps), steps);
  pointer("barrier", offsetof(A, barrier));
  pointer("status", offsetof(A, status));
  pointer("record", offsetof(A, record));
  return {{"bytes", sizeof(A)}, {"members", std::move(members)}};
}

// Those that the kernel does not spill with, too.
CompileRequest with_careful_defines(CompileRequest request, const CompiledKernel& kernel) {
  for (const std::string& option : kernel.careful_options) {
    if (option.starts_with(kDefine)) {
      request.defines.push_back(option.substr(kDefine.size()));
    }
  }
  return request;
}

}  // namespace

std::string nvcc_command(const CompileRequest& request, const CompiledKernel& kernel) {
  std::string command = "nvcc -arch=" + request.architecture + " -std=c++17 -cubin";
  for (const std::string& option : kernel.careful_options) {
    command += option.starts_with(kDefine) ? "" : ' ' + option;
  }
  return command;
}

std::string kernel_source(const CompileRequest& request, const CompiledKernel& kernel, std::string_view comment,
                          std::string_view file_name) {
  std::string text = "// SPDX-License-Identifier: Apache-2.0\n// " + std::string(comment) + "\n//\n//   " +
                     nvcc_command(request, kernel) + ' ' + std::string(file_name) + "\n";
  for (std::string define : with_careful_defines(request, kernel).defines) {
    const std::size_t equals = define.find('=');
    text += "#define " + (equals == std::string::npos ? define + " 1" : define.replace(equals, 1, " ")) + '\n';
  }
  return text.append(request.source);
}

std::string kernel_ptx(const CompileRequest& request, const CompiledKernel& kernel) {
  return compile_ptx(with_careful_defines(request, kernel));
}

KernelLayout kernel_layout(const RecurrenceProgram& program, std::int64_t steps) {
  const std::int64_t launched = program.steps_per_launch(steps);
  const std::vector<std::size_t> offsets = array_offsets(program.kernels_and_arrays(steps));
  const std::size_t file_bytes = offsets[RecurrenceArray::constants];
  const LaunchShape& shape = program.shape;
  const Recurrent& network = program.network;
  const auto stride = static_cast<std::size_t>(program.state.state_stride);

  std::vector<std::int32_t> order(static_cast<std::size_t>(network.hidden)), elements;
  std::memcpy(order.data(), program.constants[RecurrenceArray::order].data(), order.size() * sizeof(order[0]));
  std::visit(
      [&](const auto& plan) {
        if constexpr (requires { state_element(geometry(network, plan), 0, 0); }) {
          const auto of_plan = geometry(network, plan);
          for (int sample = 0; sample < network.batch; ++sample) {
            for (const std::int32_t place : order) {
              elements.push_back(static_cast<std::int32_t>(state_element(of_plan, place, sample)));
            }
          }
        } else {
          throw InputError("a kernel of " + std::string(plan.kName) + " is not written out");
        }
      },
      program.plan);
  KernelLayout layout{std::vector<std::byte>(file_bytes), {}};
  for (std::size_t array = 0; array < program.constants.size(); ++array) {
    std::ranges::copy(program.constants[array], layout.bytes.begin() + static_cast<std::ptrdiff_t>(offsets[array]));
  }
  const auto table = std::as_bytes(std::span(elements));
  layout.bytes.insert(layout.bytes.end(), table.begin(), table.end());

  Json filled = Json::array();  // before the launch
  if (shape.exchange == ExchangeProtocol::lamport) {
    const auto emptied = static_cast<std::size_t>(std::min<std::int64_t>(launched, kEmptiedAhead));
    filled.push_back({{"at", offsets[RecurrenceArray::states] + stride}, {"bytes", emptied * stride}, {"byte", 255}});
  } else if (shape.cluster_blocks == 0) {
    filled.push_back({{"at", offsets[RecurrenceArray::barrier]}, {"bytes", program.state.barrier_bytes}, {"byte", 0}});
  }
  Json listed = Json::array();
  const std::vector<Buffer> all = buffers(program, launched);
  for (std::size_t i = 0; i < all.size(); ++i) {
    listed.push_back({{"name", all[i].name},
                      {"at", offsets[i]},
                      {"bytes", offsets[i + 1] - offsets[i]},
                      {"type", all[i].type},
                      {"shape", all[i].shape},
                      {"filled", all[i].filled}});
  }
  layout.description = {
      {"kernel", shape.kernel},
      {"grid", shape.blocks},
      {"block", shape.threads},
      {"dynamic_shared_bytes", shape.shared_bytes},
      {"cooperative", shape.cluster_blocks == 0},
      {"cluster", shape.cluster_blocks},
      {"steps", launched},
      {"argument", argument(launched)},
      {"workspace_bytes", offsets.back()},
      {"workspace_alignment", kArrayAlignment},
      {"file_bytes", file_bytes},
      {"buffers", std::move(listed)},
      {"filled_before_each_launch", std::move(filled)},
      {"state_bytes", stride},
      {"state_elements", {{"at_in_file", file_bytes}, {"type", "i32"}, {"shape", {network.batch, network.hidden}}}}};
  return layout;
}

}  // namespace onchip
