// SPDX-License-Identifier: Apache-2.0
// The length of kernels, and the model's count of a step's instructions, against machine code. Needs no GPU.
#include "model/sparse/instructions.hpp"

#include "kernels/recurrent/recurrence.hpp"
#include "kernels/runtime/cubin.hpp"
#include "kernels/runtime/device.hpp"
#include "model/chip/chip.hpp"
#include "model/dense/price.hpp"
#include "model/families/planner.hpp"
#include "tests/catch.hpp"

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr const char* kArchitecture = "sm_90";

CompileRequest of_adds(int count) {
  static const std::string source = R"(
extern "C" __global__ void adds(float* out, float x) {
  float sum = x;
#pragma unroll
  for (int i = 0; i < ONCHIP_ADDS; ++i) sum = sum * x + out[i];
  out[threadIdx.x] = sum;
}
)";
  return {"adds", source, kArchitecture, {"ONCHIP_ADDS=" + std::to_string(count)}};
}

TEST_CASE("a kernel's code has as many bytes as its instructions", "[fast]") {
  const auto instructions = [](int adds) {
    return static_cast<double>(code_bytes(compile(of_adds(adds)).cubin, "adds")) / kInstructionBytes;
  };
  // A load and a multiply-add each; the compiler fills up to a whole line of instructions.
  CHECK(std::abs(instructions(200) - instructions(100) - 200) <= 16);
  CHECK(instructions(100) >= 200);
  CHECK(instructions(100) <= 250);
}

TEST_CASE("what is no whole cubin, or of another kernel, is refused", "[fast]") {
  const std::vector<char> cubin = compile(of_adds(4)).cubin;
  CHECK_THROWS_WITH(code_bytes(cubin, "subtracts"), "the cubin has no kernel 'subtracts'");
  CHECK_THROWS_WITH(code_bytes({}, "adds"), "the cubin is torn");
  const std::int64_t whole = code_bytes(cubin, "adds");
  int refused = 0;
  for (std::size_t size = 0; size < cubin.size(); size += 97) {
    std::int64_t bytes = whole;  // what is cut off may be no part of what is looked at
    try {
      bytes = code_bytes({cubin.data(), size}, "adds");
    } catch (const CudaError&) {
      ++refused;
    }
    CHECK(bytes == whole);
  }
  CHECK(refused > 10);
  std::vector<char> other = cubin;
  other[1] = 'e';
  CHECK_THROWS_WITH(code_bytes(other, "adds"), "the cubin is no 64-bit ELF file");
}

TEST_CASE("the model's count of a step's instructions is close to the compiler's", "[fast]") {
  const std::vector<std::pair<Recurrent, std::string_view>> cases{
      {{Cell::relu, Precision::fp16, 2304, 4, 256, 0.3}, SparsePlan::kName},
      {{Cell::tanh, Precision::fp16, 1024, 64, 256, 0.1}, SparsePlan::kName},
      {{Cell::lstm, Precision::fp16, 2304, 4, 256, 0.1}, SparsePlan::kName},
      {{Cell::lstm, Precision::bf16, 512, 32, 256, 0.1}, SparsePlan::kName},
      {{Cell::gru, Precision::fp16, 1024, 16, 256, 0.1}, SparsePlan::kName},
      {{Cell::gru, Precision::fp32, 512, 4, 256, 1.0}, SparsePlan::kName},
      {{Cell::relu, Precision::fp8, 8192, 4, 256, 0.1}, SparsePlan::kName},
      {{Cell::lstm, Precision::fp16, 5632, 4, 256, 0.1}, SparsePlan::kName},
      {{Cell::lstm, Precision::fp16, 1024, 64, 256, 1.0}, DensePlan::kName},
      {{Cell::relu, Precision::fp16, 4096, 8, 256, 1.0}, DensePlan::kName},
      {{Cell::lstm, Precision::fp16, 2560, 16, 256, 0.2}, DensePlan::kName},
      {{Cell::relu, Precision::bf16, 5632, 8, 256, 0.1}, DensePlan::kName},
  };
  constexpr double kBesideTheLoop = 330;  // of a launch: weights and tables, its end
  const Chip chip = find_chip("h200").chip;
  double sum = 0;
  for (const auto& [network, family] : cases) {
    Constraints constraints;
    constraints.family = family;
    const RecurrentPlan plan = choose_plan(chip, network, RowProfile::uniform(network), constraints).plan;
    INFO(describe(network) + ": " + to_string(plan));
    const CompileRequest request = compile_request(network, plan, kArchitecture);
    const double compiled = static_cast<double>(code_bytes(compile(request).cubin, request.name)) / kInstructionBytes;
    const double counted = std::visit(
        [&network = network](const auto& of_family) {
          if constexpr (requires { step_instructions(geometry(network, of_family)); }) {
            return step_instructions(geometry(network, of_family));
          }
          return 0.0;
        },
        plan);
    const double error = (counted + kBesideTheLoop) / compiled - 1;
    CHECK(std::abs(error) < 0.35);
    sum += std::abs(error);
  }
  CHECK(sum / static_cast<double>(cases.size()) < 0.12);
}

}  // namespace
}  // namespace onchip
