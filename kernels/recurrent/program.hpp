// SPDX-License-Identifier: Apache-2.0
// A recurrence as a program, made on the host and without a GPU: what its plan compiles to, its weights as the kernels
// load them, and what a run of sequences does with both. recurrence.hpp runs it in memory of the caller's, an
// interpreter of the kernels on the host (experiments/measurement/interpreted/interpret.hpp).
#pragma once

#include "kernels/persistent/family_kernel.hpp"
#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/kernel_program.hpp"
#include "model/families/layout.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// The points of a step, as Mark has them (kernels/persistent/arguments.hpp).
inline constexpr std::array<std::string_view, kMarksOfStep> kStepMarks{
    "begun", "staged", "complete", "gathered", "reduced", "finished", "all_finished", "emitted"};

// What the plan compiles to: works without a GPU. Throws InputError for a library's plan, and for what the architecture
// does not have.
CompileRequest compile_request(const Recurrent& network, const RecurrentPlan& plan, const std::string& architecture,
                               Work work = Work::whole);
// The translation kernels of its sequences (state_order.cu).
CompileRequest compile_order_request(const Recurrent& network, const RecurrentPlan& plan,
                                     const std::string& architecture);

// Throws InputError for plans that cannot be captured.
CaptureSize capture_size(const Recurrent& network, const RecurrentPlan& plan);

// Added to every step's input, [gates * hidden] each; empty: zeros. PyTorch's bias_ih and bias_hh. They differ only in
// the GRU, whose recurrent bias of the n gate is multiplied by the reset gate.
struct Biases {
  std::span<const float> input, recurrent;
};

// One batch of sequences; pointers to memory of whatever runs the program, in the type of the network's state. Null:
// zeros, or not wanted.
struct Sequences {
  std::int64_t steps = 0;
  const void* input = nullptr;         // [steps, batch, gates, hidden]: input projection
  const void* initial = nullptr;       // [batch, hidden]
  const void* initial_cell = nullptr;  // [batch, hidden], LSTM
  void* output = nullptr;              // [steps, batch, hidden]
  void* final_state = nullptr;         // [batch, hidden]: of each sample's last step
  void* final_cell = nullptr;          // [batch, hidden], LSTM
  // Elements from one sample of the input, or of the output, to the next; 0: gates * hidden, and hidden.
  std::int64_t input_stride = 0, output_stride = 0;
  // Host memory, read before a run is enqueued, also when a graph is captured, which keeps them: steps of each sample,
  // 1 to `steps`; output beyond is zero. Empty: all.
  std::span<const int> lengths;
  bool backward = false;  // each sample from its last step to its first; the final state is then that of step 0
};

// The arrays of a program. Constants come first: they are written once.
struct RecurrenceArray {
  enum : int {
    weights,
    streamed,
    overflow,
    gates,              // u32 [state units]
    order,              // i32 [hidden]
    row_places,         // i32 [gates * hidden]
    input_bias,         // float [gates * hidden]
    recurrent_bias,     // float [state units]: of the GRU's n gate
    scales,             // float [state units, gates], fp8
    constants,          // how many
    input = constants,  // [steps per launch, batch, state units, gates]
    states,             // [steps per launch + 1, state]
    carry,              // float [state units, batch padded]
    final_carry,
    lengths,  // int [batch padded]
    barrier,  // u32
    status,   // u32: 1 if a block gave up waiting for another
    record,   // u32 [record_words]
    count
  };
};

inline constexpr std::int64_t kMostLaunchBytes = std::int64_t{256} << 20;

struct RecurrenceProgram {
  Recurrent network;
  RecurrentPlan plan;
  StateGeometry state;
  LaunchShape shape;
  Work work = Work::whole;
  int captured_accesses = 0;  // of a warp, at most
  bool has_input_bias = false;
  CompileRequest kernel_request, order_request;  // of the plan's family; the translations
  CompiledKernel kernel, order;                  // empty until compiled
  std::array<std::vector<std::byte>, RecurrenceArray::constants> constants;

  // Sequences longer than these run in several launches: as many steps as are asked for, but no more than
  // kMostLaunchBytes hold. Throws InputError if `most_steps` is below 1.
  std::int64_t steps_per_launch(std::int64_t most_steps) const;

  // 32-bit words that the kernel writes down: Work::clocked [steps per launch, sms, warps, marks]; Work::captured [sms,
  // warps] of CaptureSize; else none.
  std::size_t record_words(std::int64_t steps_per_launch) const;

  // Kernels and arrays, without nodes, which are those of a run. Constants are not copied. Throws as
  // steps_per_launch().
  KernelProgram kernels_and_arrays(std::int64_t most_steps) const;

  // All time steps, with arrays of so many steps per launch. What is in an array before the first run: its constants,
  // or zeros. Throws InputError for lengths out of range.
  std::vector<ProgramNode> nodes(ArrayPlaces at, std::int64_t steps_per_launch, const Sequences& sequences) const;
  // The recurrence alone, on the input and the initial state that are in the arrays.
  std::vector<ProgramNode> recurrence_nodes(ArrayPlaces at, std::int64_t steps_per_launch, std::int64_t steps) const;

 private:
  void add_launch(std::vector<ProgramNode>& nodes, ArrayPlaces at, std::int64_t first_step, std::int64_t steps) const;
  ProgramNode set_lengths(ArrayPlaces at, const Sequences& sequences) const;
};

// Compiles, or takes from the cache, and encodes the weights. Throws DoesNotFit if the kernel spills registers,
// InputError for biases of a wrong size, CudaError if it does not compile.
RecurrenceProgram make_program(const Layout& layout, const Biases& biases, const std::string& architecture,
                               Work work = Work::whole);

// The same without its kernels: for those who execute their PTX.
RecurrenceProgram make_uncompiled_program(const Layout& layout, const Biases& biases, const std::string& architecture,
                                          Work work = Work::whole);

}  // namespace onchip
