// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/interpreted/interpret.hpp"

#include <string>
#include <utility>

namespace onchip {

InterpretedKernel::InterpretedKernel(const Layout& layout, const Biases& biases, std::int64_t most_steps, Work work)
    : InterpretedKernel(make_uncompiled_program(layout, biases, kInterpretedArchitecture, work), most_steps, {}) {}

InterpretedKernel::InterpretedKernel(const Layout& layout, const Biases& biases, std::int64_t most_steps, Work work,
                                     const std::string& ptx)
    : InterpretedKernel(make_uncompiled_program(layout, biases, kInterpretedArchitecture, work), most_steps,
                        {{std::string(family_name(plan_of(layout))), ptx}}) {}

InterpretedKernel::InterpretedKernel(RecurrenceProgram program, std::int64_t most_steps,
                                     const std::map<std::string, std::string>& texts)
    : program_(std::move(program)),
      steps_per_launch_(program_.steps_per_launch(most_steps)),
      interpreted_(program_.kernels_and_arrays(most_steps), texts) {}

void InterpretedKernel::run(const Sequences& sequences) {
  const auto status = interpreted_.run(program_.nodes(interpreted_.places(), steps_per_launch_, sequences));
  for (const InterpretedProgram::Launch& launch : interpreted_.launches()) {
    counts_.warp_instructions += launch.counts.warp_instructions;
    counts_.lane_instructions += launch.counts.lane_instructions;
  }
  if (status[0] != 0) {
    throw CudaError("a block gave up waiting for the state of another; the results are not valid");
  }
}

std::vector<std::uint32_t> InterpretedKernel::record() const {
  std::vector<std::uint32_t> words(program_.record_words(steps_per_launch_));
  interpreted_.read(RecurrenceArray::record, std::as_writable_bytes(std::span(words)));
  return words;
}

}  // namespace onchip
