// SPDX-License-Identifier: Apache-2.0
// What a training step of one LSTM layer takes on the current device, random data.
#pragma once

#include "kernels/training/lstm_program.hpp"

namespace onchip {

struct LstmTiming {
  LstmPlan plan;
  int spill_bytes = 0;
  double forward_us = 0, backward_us = 0, products_us = 0, preparation_us = 0;  // per step, each for itself
  double graph_us = 0;  // per step, everything in one CUDA graph
};

// Runs once, then `repeats` times; medians. Throws CudaError, also if a wait was given up.
LstmTiming time_lstm_training(const LstmSize& size, Precision precision, const LstmPlan& plan, int repeats);

}  // namespace onchip
