// SPDX-License-Identifier: Apache-2.0
// simulate --mode train: the recurrences of a training step, replayed; validate --simulate: those that were measured.
#pragma once

#include "experiments/command/options.hpp"
#include "experiments/command/output.hpp"
#include "experiments/training/answers.hpp"
#include "experiments/validation/accuracy.hpp"
#include "model/base/table.hpp"
#include "sim/simulate.hpp"

#include <string>
#include <vector>

namespace onchip {

// The plan whose recurrences are replayed: the given one, or the fastest on the chip. Throws InputError where it is not
// of dense recurrences.
DenseTrainingPlan replayed_plan(const Chip& chip, const AskedTraining& asked);
int simulate_training(const Options& options, const ChipFile& chip, const AskedTraining& asked,
                      const SimulationOptions& simulation);

// Both recurrences of a measured step, us per step.
struct RecurrenceRow : ScoredRow {  // of the simulator's times
  std::string pass;
  double predicted_us = 0;  // the analytic model's
};

// Of a file's rows of kernels with forward_us and backward_us. Throws InputError with the row.
std::vector<RecurrenceRow> simulate_recurrences(const CsvReader& file, const Chip& chip,
                                                const SimulationOptions& simulation);

Accuracy score(const std::vector<RecurrenceRow>& rows);
Report report(const std::vector<RecurrenceRow>& rows, std::size_t shown_rows);

}  // namespace onchip
