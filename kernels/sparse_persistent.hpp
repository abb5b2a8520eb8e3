// SPDX-License-Identifier: Apache-2.0
// The sparse persistent kernel (sparse_persistent.cu), specialised for a plan and loaded with a matrix.
#pragma once

#include "kernels/compiler.hpp"
#include "kernels/device.hpp"
#include "model/layout.hpp"

#include <cstdint>
#include <string>

namespace onchip {

// What the plan compiles to: works without a GPU. Throws InputError for a cell that has no kernel.
CompileRequest compile_request(const Network& network, const Plan& plan, const std::string& architecture);

class SparsePersistent {
 public:
  // Compiles (or takes from the cache), loads, and uploads the weights. Throws CudaError if the kernel spills
  // registers or if one SM cannot hold a block, so that a launch could not be co-resident.
  // Sequences longer than `most_steps` run in several launches: workspace against launches.
  explicit SparsePersistent(const Layout& layout, std::int64_t most_steps = 2048);

  const ResourceReport& resources() const { return compiled_.resources; }
  const std::string& fingerprint() const { return compiled_.fingerprint; }

  // Enqueues `steps` time steps on the stream; all pointers are device memory in the network's precision.
  //   input   [steps, batch, hidden]   input projection with bias
  //   initial [batch, hidden]
  //   output  [steps, batch, hidden]
  // One run at a time per object: its workspace is its own.
  void enqueue(cudaStream_t stream, const void* input, const void* initial, void* output, std::int64_t steps);

  // After the stream is synchronised: throws CudaError if a block gave up waiting for another.
  void check_status() const;

 private:
  Network network_;
  Plan plan_;
  CompiledKernel compiled_;
  Kernel kernel_, to_state_order_, from_state_order_;
  DeviceBuffer<std::uint32_t> weights_;
  DeviceBuffer<std::int32_t> rows_;
  DeviceBuffer<std::int32_t> order_;
  std::int64_t steps_per_launch_;
  DeviceBuffer<std::byte> input_;
  DeviceBuffer<std::byte> states_;
  DeviceBuffer<std::uint32_t> status_;
};

// Floats as the kernel's elements (rounded to nearest even), and back.
std::vector<std::byte> to_elements(std::span<const float> values, Precision precision);
std::vector<float> from_elements(std::span<const std::byte> elements, Precision precision);

}  // namespace onchip
