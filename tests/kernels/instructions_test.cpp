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
  struct Case {
    Cell cell;
    int hidden, batch;
    double density;
    Precision precision;
    std::string_view family;
  };
  const std::vector<Case> cases{
      {Cell::relu, 2304, 4, 0.3, Precision::fp16, SparsePlan::kName},
      {Cell::tanh, 1024, 64, 0.1, Precision::fp16, SparsePlan::kName},
      {Cell::lstm, 2304, 4, 0.1, Precision::fp16, SparsePlan::kName},
      {Cell::lstm, 512, 32, 0.1, Precision::bf16, SparsePlan::kName},
      {Cell::gru, 1024, 16, 0.1, Precision::fp16, SparsePlan::kName},
      {Cell::gru, 512, 4, 1.0, Precision::fp32, SparsePlan::kName},
      {Cell::relu, 8192, 4, 0.1, Precision::fp8, SparsePlan::kName},
      {Cell::lstm, 5632, 4, 0.1, Precision::fp16, SparsePlan::kName},
      {Cell::lstm, 1024, 64, 1.0, Precision::fp16, DensePlan::kName},
      {Cell::relu, 4096, 8, 1.0, Precision::fp16, DensePlan::kName},
      {Cell::lstm, 2560, 16, 0.2, Precision::fp16, DensePlan::kName},
      {Cell::relu, 5632, 8, 0.1, Precision::bf16, DensePlan::kName},
  };
  constexpr double kBesideTheLoop = 330;  // of a launch: weights and tables, its end
  const Chip chip = find_chip("h200").chip;
  double sum = 0;
  for (const Case& c : cases) {
    const Recurrent network{
        .cell = c.cell, .precision = c.precision, .hidden = c.hidden, .batch = c.batch, .density = c.density};
    Constraints constraints;
    constraints.family = c.family;
    const RecurrentPlan plan = choose_plan(chip, network, RowProfile::uniform(network), constraints).plan;
    INFO(describe(network) + ": " + to_string(plan));
    const CompileRequest request = compile_request(network, plan, kArchitecture);
    const double compiled = static_cast<double>(code_bytes(compile(request).cubin, request.name)) / kInstructionBytes;
    const double counted = std::visit(
        [&]<typename P>(const P& of_family) {
          if constexpr (P::kIsOnChip) {
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
