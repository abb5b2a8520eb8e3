// SPDX-License-Identifier: Apache-2.0
// onchip measure --mode train: a training step on this machine's GPU, with --baselines beside the libraries that
// compute the same. Without a step by --plan the kernels' own choice of plans runs; its price is beside its time.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/measurement/measurement.hpp"
#include "experiments/training/answers.hpp"

namespace onchip {

int measure_training(const ChipFile& chip, const AskedTraining& asked, const MeasureOptions& options, Output& output);

}  // namespace onchip
