// SPDX-License-Identifier: Apache-2.0
// onchip measure --mode train: a training step on this machine's GPU, with --baselines beside the libraries that
// compute the same. Without a step by --plan the kernels' own choice of plans runs; its price is beside its time.
#pragma once

#include "experiments/measurement/measurement.hpp"
#include "experiments/training/answers.hpp"
#include "kernels/training/training_program.hpp"
#include "model/answer/columns.hpp"

#include <optional>
#include <string>

namespace onchip {

// The program of the plan that is asked for, or else of the fastest one on the chip, that the compiler confirms.
struct OwnProgram {
  TrainingProgram program;
  std::optional<TrainingPlan> refused;  // the model's, if the compiler spills it and another is taken
};
// Compiles, and lays a sparse network out. Throws InputError for what the kernels do not train.
OwnProgram own_program(const Chip& chip, const AskedTraining& asked, const std::string& architecture);

// What the columns of its rows mean.
ColumnGroup training_columns();

// `one`: without, every row of the file of --configurations (read_training_row). With --compile-only nothing runs.
int measure_training(const Options& options, const ChipFile& chip, std::optional<AskedTraining> one,
                     const MeasureOptions& measure_options);

}  // namespace onchip
