// SPDX-License-Identifier: Apache-2.0
// The sparse persistent kernel (sparse_persistent.cu), specialised for a plan and loaded with a matrix.
#pragma once

#include "kernels/compiler.hpp"
#include "kernels/device.hpp"
#include "model/layout.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// `exchange_only`: the steps without their gathers and cells, every state zero: what the exchange of the
// plan's state takes, the larger part of the floor that no kernel gets below.
// `clocked`: every warp writes down when it passes each point of a step; this takes a little time itself.
enum class Work : std::uint8_t { whole, exchange_only, clocked };

// The points of a step, and what a warp has done at each. A block barrier blocks at the first instruction that needs
// it: the wait of those before "complete" and "all_finished" counts to the point after.
inline constexpr std::array<std::string_view, 8> kStepMarks{"begun",   "staged",   "complete",     "gathered",
                                                            "reduced", "finished", "all_finished", "emitted"};

// What the plan compiles to: works without a GPU.
CompileRequest compile_request(const Network& network, const Plan& plan, const std::string& architecture,
                               Work work = Work::whole);
// The translation kernels of its sequences (state_order.cu).
CompileRequest compile_order_request(const Network& network, const Plan& plan, const std::string& architecture);

// Added to every step's input, [gates * hidden] each; empty: zeros. PyTorch's bias_ih and bias_hh. They differ only in
// the GRU, whose recurrent bias of the n gate is multiplied by the reset gate.
struct Biases {
  std::span<const float> input, recurrent;
};

// One batch of sequences; pointers to device memory, in the type of the network's state. Null: zeros, or not wanted.
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
  // Host memory, read before enqueue returns: steps of each sample, 1 to `steps`; output beyond is zero. Empty: all.
  std::span<const int> lengths;
  bool backward = false;  // each sample from its last step to its first; the final state is then that of step 0
};

class SparsePersistent {
 public:
  // Compiles (or takes from the cache), loads, and uploads the weights. Throws CudaError if the kernel spills
  // registers or if one SM cannot hold a block, so that a launch could not be co-resident.
  // Sequences longer than `most_steps` run in several launches: workspace against launches.
  explicit SparsePersistent(const Layout& layout, const Biases& biases = {}, std::int64_t most_steps = 2048,
                            Work work = Work::whole);

  const ResourceReport& resources() const { return compiled_.resources; }
  const std::string& fingerprint() const { return compiled_.fingerprint; }

  // Enqueues all time steps on the stream. One run at a time per object: its workspace is its own. Throws InputError
  // for lengths out of range.
  void enqueue(cudaStream_t stream, const Sequences& sequences);

  // Enqueues the recurrence alone, on the input and the initial state that the last enqueue() left in the workspace:
  // what remains where neither has to be brought into the plan's order. Results are not handed out.
  void enqueue_recurrence(cudaStream_t stream, std::int64_t steps);

  // Work::clocked, after the stream is synchronised: SM clocks of the last launch, [steps, sms, warps, marks].
  std::vector<std::uint32_t> clocks() const { return clocks_.download(); }

  // After the stream is synchronised: throws CudaError if a block gave up waiting for another.
  void check_status() const;

 private:
  SparsePersistent(const Layout& layout, const Encoded& encoded, const Biases& biases, std::int64_t most_steps,
                   Work work);
  void set_lengths(cudaStream_t stream, const Sequences& sequences);
  void launch(cudaStream_t stream, std::int64_t first_step, std::int64_t steps);

  Network network_;
  Plan plan_;
  CompiledKernel compiled_;
  Kernel kernel_;
  std::vector<char> order_cubin_;
  Kernel to_input_order_, to_state_order_, from_state_order_, to_final_state_, to_carry_order_, from_carry_order_;
  DeviceBuffer<std::uint32_t> weights_;
  DeviceBuffer<std::uint32_t> streamed_;
  DeviceBuffer<std::int32_t> tails_;
  DeviceBuffer<std::uint32_t> gates_;      // [state units]
  DeviceBuffer<std::int32_t> order_;       // [hidden]
  DeviceBuffer<std::int32_t> row_places_;  // [gates * hidden]
  DeviceBuffer<float> input_bias_;         // [gates * hidden]
  DeviceBuffer<float> recurrent_bias_;     // [state units]: of the GRU's n gate
  DeviceBuffer<float> scales_;             // [state units, gates], fp8
  bool has_input_bias_;
  std::int64_t steps_per_launch_;
  DeviceBuffer<std::byte> input_;
  DeviceBuffer<std::byte> states_;
  DeviceBuffer<float> carry_, final_carry_;  // [state units, batch padded]
  std::vector<int> host_lengths_;
  DeviceBuffer<int> lengths_;  // [batch padded]
  DeviceBuffer<std::uint32_t> barrier_;
  DeviceBuffer<std::uint32_t> status_;
  DeviceBuffer<std::uint32_t> clocks_;
};

// Floats as the kernel's elements (rounded to nearest even), and back.
std::vector<std::byte> to_elements(std::span<const float> values, Precision precision);
std::vector<float> from_elements(std::span<const std::byte> elements, Precision precision);

}  // namespace onchip
