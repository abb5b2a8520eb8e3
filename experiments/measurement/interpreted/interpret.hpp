// SPDX-License-Identifier: Apache-2.0
// A plan's kernels without a GPU: the PTX that NVRTC makes of them, executed by sim/ptx, every block and thread, in the
// same launches as on one. Results are those of the kernel's own arithmetic; only approximate instructions and the
// order in which a tensor core adds differ (sim/ptx/numerics.hpp, warp_instructions.cpp). No times.
#pragma once

#include "experiments/measurement/interpreted/interpreted_program.hpp"
#include "kernels/recurrent/program.hpp"
#include "sim/ptx/machine.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace onchip {

// What the PTX is made for: the newest features that the kernels use.
inline constexpr const char* kInterpretedArchitecture = "sm_90";

class InterpretedKernel {
 public:
  // As those of PersistentKernel. Throws CudaError if the kernel does not compile, InputError for PTX that is not
  // known.
  explicit InterpretedKernel(const Layout& layout, const Biases& biases = {}, std::int64_t most_steps = 2048,
                             Work work = Work::whole)
      : InterpretedKernel(make_uncompiled_program(layout, biases, kInterpretedArchitecture, work), most_steps, {}) {}

  // Executes this text instead of the kernel's own PTX.
  InterpretedKernel(const Layout& layout, const Biases& biases, std::int64_t most_steps, Work work,
                    const std::string& ptx)
      : InterpretedKernel(make_uncompiled_program(layout, biases, kInterpretedArchitecture, work), most_steps,
                          {{std::string(family_name(plan_of(layout))), ptx}}) {}

  // Host memory that a run may read or write, besides the program's arrays.
  void allow(std::span<std::byte> bytes) { interpreted_.allow(bytes); }
  void forget(std::span<std::byte> bytes) { interpreted_.forget(bytes); }

  // All pointers of `sequences` are to host memory that was allowed. Throws ptx::Fault for what the kernel does wrong,
  // CudaError if a block gave up waiting for another.
  void run(const Sequences& sequences) {
    const auto status = interpreted_.run(program_.nodes(interpreted_.places(), steps_per_launch_, sequences));
    for (const InterpretedProgram::Launch& launch : interpreted_.launches()) {
      counts_.warp_instructions += launch.counts.warp_instructions;
      counts_.lane_instructions += launch.counts.lane_instructions;
    }
    if (status[0] != 0) {
      throw CudaError("a block gave up waiting for the state of another; the results are not valid");
    }
  }

  // Launches of more instructions of warps end with a Fault.
  void limit(std::uint64_t most_instructions) { interpreted_.limit(most_instructions); }

  const RecurrenceProgram& program() const { return program_; }
  // What Work::captured and Work::clocked wrote down.
  std::vector<std::uint32_t> record() const {
    std::vector<std::uint32_t> words(program_.record_words(steps_per_launch_));
    interpreted_.read(RecurrenceArray::record, std::as_writable_bytes(std::span(words)));
    return words;
  }

  const ptx::Counts& counts() const { return counts_; }  // of all runs

 private:
  InterpretedKernel(RecurrenceProgram program, std::int64_t most_steps, const std::map<std::string, std::string>& texts)
      : program_(std::move(program)),
        steps_per_launch_(program_.steps_per_launch(most_steps)),
        interpreted_(program_.kernels_and_arrays(most_steps), texts) {}

  RecurrenceProgram program_;
  std::int64_t steps_per_launch_;
  InterpretedProgram interpreted_;
  ptx::Counts counts_;
};

}  // namespace onchip
