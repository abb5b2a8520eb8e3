// SPDX-License-Identifier: Apache-2.0
// A feed-forward network's kernels without a GPU: their PTX, executed by sim/ptx, launch after launch
// (measurement/interpret.hpp says what differs from a GPU). No times.
#pragma once

#include "kernels/feed_forward/inference_executor.hpp"
#include "sim/ptx/machine.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace onchip {

class InterpretedInference : public InferenceExecutor {
 public:
  // Throws CudaError if a kernel does not compile, InputError for PTX that is not known; infer() throws ptx::Fault for
  // what a kernel does wrong.
  explicit InterpretedInference(const InferenceProgram& program);
  ~InterpretedInference() override;

  const ptx::Counts& counts() const { return counts_; }

 private:
  void write(int array, std::span<const std::byte> bytes) override;
  void read(int array, std::span<std::byte> bytes) const override;
  std::span<const std::uint32_t> run() override;

  struct State;
  std::unique_ptr<State> state_;
  ptx::Counts counts_;
};

}  // namespace onchip
