// SPDX-License-Identifier: Apache-2.0
// What of the simulated exchange (sim/exchange/exchange.hpp) no single microbenchmark measures: exchange.look,
// exchange.look_per_word, exchange.before_barrier and l2.slices, such that the simulated microbenchmark
// (sim/exchange/exchange_bench.hpp) takes as long as the measured one.
//
// A search coordinate by coordinate, with smaller and smaller steps, for the least mean square of the logarithms of
// simulated / measured; from the chip's values, so that the same rows and the same file give the same constants.
#pragma once

#include "kernels/microbench/microbench.hpp"
#include "model/chip/chip.hpp"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace onchip {

// `chip`: with all constants that fit_constants() finds. None if there are too few rows. `say`: what is being done.
std::vector<CalibratedConstant> fit_simulated_exchange(const Chip& chip, std::span<const MicrobenchRow> rows,
                                                       const std::function<void(const std::string&)>& say);

}  // namespace onchip
