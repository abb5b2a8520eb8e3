// SPDX-License-Identifier: Apache-2.0
// A program without a GPU: its kernels' PTX, executed by sim/ptx, launch after launch
// (interpret.hpp says what differs from a GPU). No times.
#pragma once

#include "kernels/runtime/kernel_program.hpp"
#include "sim/ptx/machine.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace onchip {

class InterpretedProgram : public ProgramExecutor {
 public:
  // `texts`: by the names of requests, what is executed instead of their own PTX. Throws CudaError if a kernel does not
  // compile, InputError for PTX that is not known; run() throws ptx::Fault for what a kernel does wrong.
  explicit InterpretedProgram(const KernelProgram& program, const std::map<std::string, std::string>& texts = {});
  ~InterpretedProgram() override;

  // Host memory that kernels may read or write, besides the arrays.
  void allow(std::span<std::byte> bytes);
  void forget(std::span<std::byte> bytes);
  // Launches of more instructions of warps end with a Fault.
  void limit(std::uint64_t most_instructions) { most_instructions_ = most_instructions; }

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
  // Nodes of a program that has none of its own.
  std::span<const std::uint32_t> run(std::span<const ProgramNode> nodes);
  ArrayPlaces places() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::optional<BankGeometry> banks_;
  std::vector<Launch> launches_;
  std::uint64_t most_instructions_ = ptx::Launch().most_instructions;
};

}  // namespace onchip
