// SPDX-License-Identifier: Apache-2.0
// A program on the current device: as one CUDA graph, without the host in between; on streams where the program has
// something for the host to do.
#pragma once

#include "kernels/runtime/device.hpp"
#include "kernels/runtime/kernel_program.hpp"

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace onchip {

// Enqueues what a node does, but for what the host does itself, on a stream of its caller's. `cublas` uses that stream,
// and may be null where there is no product.
void enqueue(const ProgramNode& node, std::span<const Kernel> kernels, const Cublas* cublas, cudaStream_t stream);

class DeviceProgram : public ProgramExecutor {
 public:
  // Compiles, allocates and uploads. Throws CudaError.
  explicit DeviceProgram(const KernelProgram& program);
  ~DeviceProgram() override;

  // Milliseconds of each node, one after another, by events.
  std::vector<std::pair<std::string, double>> node_ms();
  int spill_bytes() const;  // of all kernels

  // Milliseconds of the whole graph, after which results() has what it found, as run() returns it.
  double graph_ms();
  std::span<const std::uint32_t> results() const;

  void write(int array, std::span<const std::byte> bytes) override;
  void read(int array, std::span<std::byte> bytes) const override;
  std::span<const std::uint32_t> run() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace onchip
