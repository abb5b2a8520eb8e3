// SPDX-License-Identifier: Apache-2.0
// A training step by our own kernels: which plans run, and what they take.
#pragma once

#include "experiments/training/answers.hpp"
#include "kernels/training/sparse_program.hpp"
#include "kernels/training/training_timing.hpp"
#include "model/training/price.hpp"

#include <optional>
#include <string>

namespace onchip {

inline constexpr const char* kOwn = "onchip";

// The program of the plan that is asked for, or else of the fastest one on the chip, that the compiler confirms.
struct OwnProgram {
  TrainingProgram program;
  std::optional<TrainingPlan> refused;  // the model's, if the compiler spills it and another is taken
};
// Compiles, and lays a sparse network out. Throws InputError for what the kernels do not train.
OwnProgram own_program(const Chip& chip, const AskedTraining& asked, const std::string& architecture);

struct OwnStep {
  TrainingWays ways;
  TrainingPlan plan;  // that runs
  std::optional<TrainingPlan> refused;
  PhasePrice price;  // of that plan, of an iteration
};

// Onto the current device, to be timed. Throws CudaError.
OwnStep load_own_step(const Chip& chip, const AskedTraining& asked, const OwnProgram& made);

}  // namespace onchip
