// SPDX-License-Identifier: Apache-2.0
// predict and measure --mode train: a training step of a recurrent network.
#pragma once

#include "experiments/command/options.hpp"
#include "model/base/table.hpp"
#include "model/training/step.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace onchip {

OptionGroup training_options();

// What is to be trained; nothing without --mode train. Throws InputError for options that a training step has not.
struct AskedTraining {
  Training training;
  std::string mask;        // of a sparse network: its name
  std::uint64_t seed = 1;  // that it was generated with
  Stash stash = Stash::gates;
  std::optional<TrainingStep> step;  // --plan
  // On a GPU: fields of the plans of the kernels' own pick that are otherwise, "turns=2 warps=16".
  std::string forward, backward;
};
std::optional<AskedTraining> read_training(const Options& options);
// Of a row with cell, hidden, batch, precision and, if wanted, steps, input, density, mask, seed, plan_forward and
// plan_backward.
AskedTraining read_training_row(const CsvReader& file, std::size_t row);

int predict_training(const Options& options, const AskedTraining& asked);

}  // namespace onchip
