// SPDX-License-Identifier: Apache-2.0
// A program without a GPU: its kernels' PTX, executed by sim/ptx, launch after launch
// (interpret.hpp says what differs from a GPU). No times.
#pragma once

#include "kernels/runtime/kernel_program.hpp"
#include "sim/ptx/machine.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
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
  std::span<const std::uint32_t> run() override { return run(nodes_); }
  // Nodes of a program that has none of its own.
  std::span<const std::uint32_t> run(std::span<const ProgramNode> nodes);
  ArrayPlaces places() const { return places_; }

 private:
  // Host memory in the place of an array.
  struct HostArray {
    static constexpr std::size_t kAlignment = 256;  // as cudaMalloc's
    std::vector<std::byte> memory;
    std::byte* begin = nullptr;
    bool writable = true;
    explicit HostArray(std::size_t bytes) : memory(bytes + kAlignment) {
      begin = memory.data() + (kAlignment - reinterpret_cast<std::uintptr_t>(memory.data()) % kAlignment) % kAlignment;
    }
  };
  std::vector<HostArray> arrays_;
  std::vector<ProgramNode> nodes_;
  std::map<std::string, ptx::Machine> machines_;  // by the request's fingerprint
  std::vector<ptx::Machine*> machine_of_;         // of each kernel
  std::vector<std::byte*> places_;                // of each array
  std::optional<BankGeometry> banks_;
  std::vector<Launch> launches_;
  std::uint64_t most_instructions_ = ptx::Launch().most_instructions;
};

}  // namespace onchip
