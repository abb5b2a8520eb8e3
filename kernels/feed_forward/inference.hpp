// SPDX-License-Identifier: Apache-2.0
// Inference of a feed-forward network on the current device: from bitmaps in device memory to the categories in host
// memory, as one CUDA graph, without the host in between; on streams where the program has something for the host to
// do.
#pragma once

#include "kernels/feed_forward/inference_program.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace onchip {

class DeviceInference {
 public:
  // Compiles, allocates and uploads. Throws CudaError.
  explicit DeviceInference(const InferenceProgram& program);
  ~DeviceInference();

  // Throws InputError for images of other neurons, or more than the program takes.
  void upload(const Bitmaps& images);
  Inference infer();
  // Milliseconds of each node, one after another, by events.
  std::vector<std::pair<std::string, double>> node_ms();
  int spill_bytes() const;  // of all kernels

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace onchip
