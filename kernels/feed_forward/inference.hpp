// SPDX-License-Identifier: Apache-2.0
// Inference of a feed-forward network on the current device: from images in device memory to the categories in host
// memory, as one CUDA graph, without the host in between; on streams where the program has something for the host to
// do.
#pragma once

#include "kernels/feed_forward/network/inference_executor.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace onchip {

class DeviceInference : public InferenceExecutor {
 public:
  // Compiles, allocates and uploads. Throws CudaError.
  explicit DeviceInference(const InferenceProgram& program);
  ~DeviceInference() override;

  // Milliseconds of each node, one after another, by events.
  std::vector<std::pair<std::string, double>> node_ms();
  int spill_bytes() const;  // of all kernels

  // Milliseconds of the whole graph, of so many in a row.
  double graph_ms(int repeats);

  void write(int array, std::span<const std::byte> bytes) override;
  void read(int array, std::span<std::byte> bytes) const override;
  std::span<const std::uint32_t> run() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace onchip
