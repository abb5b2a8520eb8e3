// SPDX-License-Identifier: Apache-2.0
// Programs whose kernels are wrong on purpose.
#pragma once

#include "kernels/runtime/kernel_program.hpp"
#include "tests/catch.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace onchip {

// Where `from` stands in the kernels' source, behind `begin` if it is there, `to` in its place; `source` has it.
inline KernelProgram with_change(KernelProgram program, std::string_view from, std::string_view to, std::string& source,
                                 std::string_view begin = "") {
  source = program.kernels.front().request.source;  // of all
  const std::size_t behind = source.find(from, source.find(begin));
  const std::size_t place = behind == std::string::npos ? source.find(from) : behind;
  REQUIRE(place != std::string::npos);
  source.replace(place, from.size(), to);
  for (ProgramKernel& kernel : program.kernels) {
    kernel.request.source = source;
  }
  return program;
}

}  // namespace onchip
