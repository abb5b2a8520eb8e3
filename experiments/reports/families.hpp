// SPDX-License-Identifier: Apache-2.0
// onchip measure --plan all: the best plan of every family that fits, and the libraries, timed in turns in one run,
// each with its predicted time, which one the planner picks, and which was the fastest.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/measurement/measurement.hpp"

namespace onchip {

// One network. With a family that is asked for, or a plan of it, only that.
int measure_families_once(const ChipFile& chip, const Configuration& configuration, const MeasureOptions& options,
                          Output& output);

// Every row of the file of --configurations, as CSV: a row for every configuration and family. Without cuSPARSE, whose
// steps take longest and were never the fastest.
int measure_families_file(const Options& options, const ChipFile& chip, const MeasureOptions& measure_options,
                          Output& output);

}  // namespace onchip
