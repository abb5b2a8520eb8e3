// SPDX-License-Identifier: Apache-2.0
// predict and measure --mode train: a training step of a recurrent network.
#pragma once

#include "experiments/command/options.hpp"
#include "model/training/step.hpp"

#include <optional>

namespace onchip {

OptionGroup training_options();

// What is to be trained; nothing without --mode train. Throws InputError for options that a training step has not.
struct AskedTraining {
  Training training;
  Stash stash = Stash::gates;
  std::optional<TrainingStep> step;  // --plan
};
std::optional<AskedTraining> read_training(const Options& options);

int predict_training(const Options& options, const AskedTraining& asked);

}  // namespace onchip
