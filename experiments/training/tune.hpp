// SPDX-License-Identifier: Apache-2.0
// onchip tune: the plans of a training layer that are predicted to be the fastest, timed on this machine's GPU beside
// cuDNN. The fastest is remembered (kernels/training/tuned_plans.hpp), and runs from then on.
#pragma once

#include "experiments/measurement/measurement.hpp"
#include "experiments/training/answers.hpp"
#include "model/answer/columns.hpp"

#include <optional>

namespace onchip {

// What the columns of its rows mean.
ColumnGroup tuning_columns();

// `one`: without, every row of the file of --configurations. Layers that are remembered are not timed, unless `again`.
int tune_training(const Options& options, const ChipFile& chip, const std::optional<AskedTraining>& one, bool again,
                  const MeasureOptions& measure_options);

}  // namespace onchip
