// SPDX-License-Identifier: Apache-2.0
// What a training step of one LSTM layer takes on the current device, random data.
#pragma once

#include "kernels/runtime/device.hpp"
#include "kernels/training/training_program.hpp"

#include <string>

namespace onchip {

// Of `repeats` samples each, us per step.
struct TrainingTiming {
  int spill_bytes = 0;
  std::string forward_code, backward_code;    // fingerprints of the machine code of both recurrences
  Timing forward, backward, products, other;  // each for itself
  Timing graph;                               // everything, in one CUDA graph
};

// Runs twice, then takes the samples. Throws CudaError, also if a wait was given up.
TrainingTiming time_training(const TrainingProgram& training, const TrainingSize& size, Precision precision,
                             int repeats);

}  // namespace onchip
