// SPDX-License-Identifier: Apache-2.0
// simulate --mode train and --layers: the recurrences of a training step, and of a stack without gradients, replayed.
#pragma once

#include "experiments/command/options.hpp"
#include "experiments/training/answers.hpp"
#include "sim/simulate.hpp"

namespace onchip {

// The plan whose recurrences are replayed: the given one, or the fastest on the chip. Throws InputError where it is not
// of dense recurrences.
DenseTrainingPlan replayed_plan(const Chip& chip, const AskedTraining& asked);
int simulate_training(const Options& options, const ChipFile& chip, const AskedTraining& asked,
                      const SimulationOptions& simulation);

}  // namespace onchip
