// SPDX-License-Identifier: Apache-2.0
// A feed-forward network's kernels without a GPU: their PTX, executed by sim/ptx, launch after launch
// (measurement/interpret.hpp says what differs from a GPU). No times.
#pragma once

#include "kernels/feed_forward/inference_program.hpp"
#include "sim/ptx/machine.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace onchip {

class InterpretedInference {
 public:
  // Throws CudaError if a kernel does not compile, InputError for PTX that is not known.
  explicit InterpretedInference(const InferenceProgram& program);
  ~InterpretedInference();

  // Throws InputError for images of other neurons, or more than the program takes.
  void upload(const Bitmaps& images);
  // Throws ptx::Fault for what a kernel does wrong. With banks, accesses to memory are counted, too.
  Inference infer(std::optional<BankGeometry> banks = {});
  // Of the last inference, in their order.
  struct Launch {
    std::string label;
    ptx::Counts counts;
  };
  const std::vector<Launch>& launches() const { return launches_; }
  std::span<const float> features() const;  // after the last layer, see InferenceProgram

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::vector<Launch> launches_;
};

}  // namespace onchip
