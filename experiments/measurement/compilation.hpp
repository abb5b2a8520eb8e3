// SPDX-License-Identifier: Apache-2.0
// Kernels of many configurations, compiled on all cores; the run-time compiler caches what it has made.
#pragma once

#include "kernels/runtime/compiler.hpp"

#include <exception>
#include <functional>
#include <span>
#include <vector>

namespace onchip {

struct CompileOutcome {
  CompiledKernel kernel;
  std::exception_ptr problem;  // set: it did not compile
};

// In the order of the requests. `progress(done)` is called from several threads, one at a time.
std::vector<CompileOutcome> compile_all(std::span<const CompileRequest> requests,
                                        const std::function<void(std::size_t done)>& progress);

}  // namespace onchip
