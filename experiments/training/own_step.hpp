// SPDX-License-Identifier: Apache-2.0
// A training step by our own kernels: which plans run, and what they take.
#pragma once

#include "experiments/training/answers.hpp"
#include "kernels/baselines/baseline.hpp"
#include "kernels/training/training_timing.hpp"
#include "model/training/price.hpp"

namespace onchip {

inline constexpr const char* kOwn = "onchip";

// The plans of the step that was asked for, or the kernels' own pick, with the fields that are asked for. Throws
// InputError for what the kernels do not train.
TrainingPlan own_plan(const Chip& chip, const AskedTraining& asked);

struct OwnStep {
  BaselineResult result;
  TrainingTiming timing;
  LibraryTraining price;  // of the plans that ran
};

// On the current device. Throws as own_plan() does, and CudaError.
OwnStep time_own_step(const Chip& chip, const AskedTraining& asked, int repeats);

}  // namespace onchip
