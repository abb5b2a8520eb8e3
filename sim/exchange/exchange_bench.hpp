// SPDX-License-Identifier: Apache-2.0
// The microbenchmark kernels/microbench/exchange.cu, simulated: an exchange step after step, with nothing between its
// two barriers but the load of what a thread emits next. Which instructions stand there is read off machine code for
// sm_90.
#pragma once

#include "sim/exchange/exchange.hpp"

namespace onchip {

struct ExchangeBench {
  int state_bytes = 0;  // whole 16-byte words, the same number for each SM
  int sms = 0, threads = 0, loads_in_flight = 1;
  int poll_delay = 0;  // cycles, see SparsePlan
};

// Cycles per step.
double simulate_exchange_bench(const Chip& chip, const ExchangeBench& bench, const ExchangeOptions& options = {});

}  // namespace onchip
