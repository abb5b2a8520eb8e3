// SPDX-License-Identifier: Apache-2.0
// Configurations (model/answer/configuration.hpp) with a compiler that has the last word on their plans.
#pragma once

#include "model/answer/answer.hpp"

#include <string>

namespace onchip {

// The plan of a question with a compiler for the architecture ("sm_90") that has the last word: if it spills the
// model's choice, the fastest plan is taken that it does not spill; if it spills all of them, or a fixed plan, that
// plan does not fit, and its footprint has the registers that it lacks. "": plan_network(). Throws CudaError if the
// kernel does not compile, InputError in builds without CUDA.
ChosenPlan compiled_plan(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                         const std::string& architecture);

}  // namespace onchip
