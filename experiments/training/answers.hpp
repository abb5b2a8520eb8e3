// SPDX-License-Identifier: Apache-2.0
// fit, predict and what-if --mode train: answers about training a recurrent network, and what is asked.
#pragma once

#include "experiments/command/output.hpp"
#include "model/answer/training/training.hpp"
#include "model/base/table.hpp"

#include <cstdint>
#include <string>

namespace onchip {

OptionGroup training_options();

// What is to be trained, with its mask, and what is asked for of its plan.
struct AskedTraining {
  Training training;
  std::string mask;        // of a sparse network: its name
  std::uint64_t seed = 1;  // that it was generated with
  TrainingConstraints constraints = {};
};
// Whether --mode says so. Throws InputError for options that a training has not, or that need it.
bool asks_training(const Options& options);
// Of a stack without gradients, whose plan is another's.
Configuration read_stack_configuration(const Options& options, bool needs_hidden);
AskedTraining read_training(const Options& options);
// Of a stack without gradients, with a plan where one is given.
AskedTraining read_stack_to_run(const Options& options, const Stack& stack);
// Of a row with cell, hidden, batch, precision and, if wanted, steps, input, density, mask, seed, plan_forward and
// plan_backward, which are the fields of constraints.
AskedTraining read_training_row(const CsvReader& file, std::size_t row);

// Without a chip. A network is dense unless it is said otherwise.
TrainingQuestion read_training_question(const Options& options, bool needs_hidden);

std::string to_text(const TrainingCase& answer);
Report report_of(const TrainingFit& answer);
Report report_of(const TrainingAnswer& answer);

}  // namespace onchip
