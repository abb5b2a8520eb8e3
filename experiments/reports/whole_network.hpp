// SPDX-License-Identifier: Apache-2.0
// onchip measure --layers, --bidirectional, --input: a whole network's forward pass on this machine's GPU, checked
// against the reference, then timed beside its input products alone and its prediction. Every layer and direction has
// the same recurrent weights; those of the inputs are random.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/measurement/measurement.hpp"
#include "model/answer/columns.hpp"
#include "model/answer/whole_network.hpp"

namespace onchip {

ColumnGroup whole_network_columns();

int measure_whole_network(const ChipFile& chip, const Configuration& configuration, const Stack& stack,
                          const MeasureOptions& options, Output& output);

}  // namespace onchip
