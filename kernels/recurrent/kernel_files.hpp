// SPDX-License-Identifier: Apache-2.0
// A plan's kernel as files for others to compile, run and change without this library: one source with everything in
// it, the bytes that its workspace begins with, and a description of how it is launched and what its arguments are.
// examples/run_kernel.cpp reads them.
#pragma once

#include "kernels/recurrent/program.hpp"
#include "model/base/json.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// "nvcc -arch=sm_90 -std=c++17 -cubin", with what the kernel does not spill with.
std::string nvcc_command(const CompileRequest& request, const CompiledKernel& kernel);

// The source as NVRTC gets it, its includes replaced, under the definitions and a comment that names the command.
std::string kernel_source(const CompileRequest& request, const CompiledKernel& kernel, std::string_view comment,
                          std::string_view file_name);

// Its PTX, with the definitions that the kernel does not spill with.
std::string kernel_ptx(const CompileRequest& request, const CompiledKernel& kernel);

struct KernelLayout {
  std::vector<std::byte> bytes;  // RecurrenceProgram::constants, then i32 [batch, hidden], the elements of a state
  Json description;
};

// For sequences of `steps`, of which a launch computes at most description["steps"].
KernelLayout kernel_layout(const RecurrenceProgram& program, std::int64_t steps);

}  // namespace onchip
