// SPDX-License-Identifier: Apache-2.0
// Kernels of many configurations, compiled on all cores; the run-time compiler caches what it has made.
#pragma once

#include "experiments/measurement/configuration.hpp"
#include "kernels/runtime/compiler.hpp"

#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace onchip {

struct CompileOutcome {
  CompiledKernel kernel;
  std::exception_ptr problem;  // set: it did not compile
};

// In the order of the requests. `progress(done)` is called from several threads, one at a time.
std::vector<CompileOutcome> compile_all(std::span<const CompileRequest> requests,
                                        const std::function<void(std::size_t done)>& progress);

// plan_network() for those who run the plan: one whose kernel the compiler keeps in registers (kernels/recurrent/spill_free_plan.hpp).
// A plan that the configuration gives is left as it is.
PlannedNetwork plan_kernel(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                           const std::string& architecture);

// The same where the compiler, not the model, says whether the plan fits: what it spills are registers that are needed
// beyond those that there are. Throws CudaError if the kernel does not compile.
PlannedNetwork plan_compiled(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                             const std::string& architecture);

}  // namespace onchip
