// SPDX-License-Identifier: Apache-2.0
// A program without a GPU: its kernels' PTX, executed by sim/ptx, launch after launch
// (interpret.hpp says what differs from a GPU). No times.
#pragma once

#include "kernels/runtime/kernel_program.hpp"
#include "sim/ptx/machine.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace onchip {

class InterpretedProgram : public ProgramExecutor {
 public:
  // Throws CudaError if a kernel does not compile, InputError for PTX that is not known; run() throws ptx::Fault for
  // what a kernel does wrong.
  explicit InterpretedProgram(const KernelProgram& program);
  ~InterpretedProgram() override;

  // Counts accesses to memory, too, from now on.
  void count_accesses(BankGeometry banks) { banks_ = banks; }
  // Of the last run, in their order.
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
