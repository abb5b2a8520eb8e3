// SPDX-License-Identifier: Apache-2.0
// A recurrence as a value, computed on the host: what its plan compiles to, and its weights as the kernels load them.
// Made without a GPU; recurrence.hpp runs it.
#pragma once

#include "kernels/recurrent/family_kernel.hpp"
#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/device.hpp"
#include "model/families/layout.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// The points of a step, and what a warp has done at each. A block barrier blocks at the first instruction that needs
// it: the wait of those before "complete" and "all_finished" counts to the point after.
inline constexpr std::array<std::string_view, 8> kStepMarks{"begun",   "staged",   "complete",     "gathered",
                                                            "reduced", "finished", "all_finished", "emitted"};

// What the plan compiles to: works without a GPU. Throws InputError for a library's plan, and for what the architecture
// does not have.
CompileRequest compile_request(const Recurrent& network, const Plan& plan, const std::string& architecture,
                               Work work = Work::whole);
// The translation kernels of its sequences (state_order.cu).
CompileRequest compile_order_request(const Recurrent& network, const Plan& plan, const std::string& architecture);

// Added to every step's input, [gates * hidden] each; empty: zeros. PyTorch's bias_ih and bias_hh. They differ only in
// the GRU, whose recurrent bias of the n gate is multiplied by the reset gate.
struct Biases {
  std::span<const float> input, recurrent;
};

// Where things begin in the workspace, in bytes; each at a multiple of kWorkspaceAlignment. The constants come first.
struct ConstantPlaces {
  std::size_t weights = 0;
  std::size_t streamed = 0;
  std::size_t overflow = 0;
  std::size_t gates = 0;           // u32 [state units]
  std::size_t order = 0;           // i32 [hidden]
  std::size_t row_places = 0;      // i32 [gates * hidden]
  std::size_t input_bias = 0;      // float [gates * hidden]
  std::size_t recurrent_bias = 0;  // float [state units]: of the GRU's n gate
  std::size_t scales = 0;          // float [state units, gates], fp8
};
inline constexpr std::size_t kWorkspaceAlignment = 256;

struct Program {
  Recurrent network;
  Plan plan;
  StateGeometry state;
  LaunchShape shape;
  Work work = Work::whole;
  int captured_accesses = 0;      // of a warp, at most
  CompiledKernel kernel;          // of the plan's family
  std::vector<char> order_cubin;  // the translations
  ConstantPlaces places;
  std::vector<std::byte> constants;  // copied to the beginning of the workspace
  bool has_input_bias = false;
};

// Compiles, or takes from the cache, and encodes the weights. Throws DoesNotFit if the kernel spills registers,
// InputError for biases of a wrong size, CudaError if it does not compile.
Program make_program(const Layout& layout, const Biases& biases, const std::string& architecture,
                     Work work = Work::whole);

// The same without its kernels: for those who execute their PTX.
Program make_uncompiled_program(const Layout& layout, const Biases& biases, Work work = Work::whole);

// What a run writes, behind the constants: sequences longer than steps_per_launch run in several launches. As many
// steps as are asked for, but no more than kMostLaunchBytes hold.
struct ScratchPlaces {
  std::int64_t steps_per_launch = 0;
  std::size_t input = 0;                   // [steps per launch, batch, state units, gates]
  std::size_t states = 0;                  // [steps per launch + 1, state]
  std::size_t carry = 0, final_carry = 0;  // float [state units, batch padded]
  std::size_t lengths = 0;                 // int [batch padded]
  std::size_t barrier = 0, status = 0;     // u32
  std::size_t record = 0;                  // u32 [record_words]
  std::size_t bytes = 0;                   // of the whole workspace, constants included
};
inline constexpr std::int64_t kMostLaunchBytes = std::int64_t{256} << 20;

// 32-bit words that the kernel writes down: Work::clocked [steps per launch, sms, warps, marks]; Work::captured [sms,
// warps] of CaptureSize; else none.
std::size_t record_words(const Program& program, std::int64_t steps_per_launch);

// Throws InputError for plans that cannot be captured.
CaptureSize capture_size(const Recurrent& network, const Plan& plan);

// Throws InputError if `most_steps` is below 1.
ScratchPlaces scratch_places(const Program& program, std::int64_t most_steps);

}  // namespace onchip
