// SPDX-License-Identifier: Apache-2.0
// What a training step of one LSTM layer takes on the current device, random data.
#pragma once

#include "kernels/training/training_program.hpp"

namespace onchip {

struct TrainingTiming {
  TrainingPlan plan;
  int spill_bytes = 0;
  double forward_us = 0, backward_us = 0, products_us = 0, preparation_us = 0;  // per step, each for itself
  double graph_us = 0;  // per step, everything in one CUDA graph
};

// Of any program.
TrainingTiming time_program(const TrainingProgram& training, const TrainingSize& size, Precision precision,
                            int repeats);

// Runs once, then `repeats` times; medians. Throws CudaError, also if a wait was given up.
TrainingTiming time_training(const TrainingSize& size, Precision precision, const TrainingPlan& plan, int repeats);

}  // namespace onchip
