// SPDX-License-Identifier: Apache-2.0
// A feed-forward network's kernels without a GPU: their PTX, executed by sim/ptx, launch after launch
// (measurement/interpret.hpp says what differs from a GPU). No times.
#pragma once

#include "kernels/feed_forward/inference_program.hpp"
#include "sim/ptx/machine.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace onchip {

class InterpretedInference {
 public:
  // Throws CudaError if a kernel does not compile, InputError for PTX that is not known.
  explicit InterpretedInference(const InferenceProgram& program);
  ~InterpretedInference();

  // Throws InputError for images of other neurons, or more than the program takes.
  void upload(const Bitmaps& images);
  // Throws ptx::Fault for what a kernel does wrong.
  Inference infer();
  const ptx::Counts& counts() const { return counts_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  ptx::Counts counts_;
};

}  // namespace onchip
