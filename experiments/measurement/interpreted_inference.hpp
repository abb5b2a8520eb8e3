// SPDX-License-Identifier: Apache-2.0
// A feed-forward network's kernels without a GPU: their PTX, executed by sim/ptx, launch after launch
// (measurement/interpret.hpp says what differs from a GPU). No times.
#pragma once

#include "kernels/feed_forward/network/inference_executor.hpp"
#include "sim/ptx/machine.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace onchip {

class InterpretedInference : public InferenceExecutor {
 public:
  // Throws CudaError if a kernel does not compile, InputError for PTX that is not known; infer() throws ptx::Fault for
  // what a kernel does wrong.
  explicit InterpretedInference(const InferenceProgram& program);
  ~InterpretedInference() override;

  // With banks, accesses to memory are counted, too.
  Inference infer(std::optional<BankGeometry> banks = {}) {
    banks_ = banks;
    return InferenceExecutor::infer();
  }
  // Of the last inference, in their order.
  struct Launch {
    std::string label;
    ptx::Counts counts;
  };
  const std::vector<Launch>& launches() const { return launches_; }

  void write(int array, std::span<const std::byte> bytes) override;
  void read(int array, std::span<std::byte> bytes) const override;
  std::span<const std::uint32_t> run() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::optional<BankGeometry> banks_;
  std::vector<Launch> launches_;
};

}  // namespace onchip
