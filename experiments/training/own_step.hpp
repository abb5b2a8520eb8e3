// SPDX-License-Identifier: Apache-2.0
// A training step by our own kernels: which plans run, and what they take.
#pragma once

#include "experiments/training/answers.hpp"
#include "kernels/training/sparse_program.hpp"
#include "kernels/training/training_timing.hpp"
#include "model/training/price.hpp"

#include <string>

namespace onchip {

inline constexpr const char* kOwn = "onchip";

// With the plans of the step that was asked for, or the kernels' own pick, with the fields that are asked for.
// Compiles, and lays a sparse network out. Throws InputError for what the kernels do not train.
TrainingProgram own_program(const Chip& chip, const AskedTraining& asked, const std::string& architecture);

struct OwnStep {
  TrainingWays ways;
  TrainingPlanText plan;
  LibraryTraining price = {};  // of the plans that ran
};

// Onto the current device, to be timed. Throws CudaError.
OwnStep load_own_step(const Chip& chip, const AskedTraining& asked, const TrainingProgram& program);

}  // namespace onchip
