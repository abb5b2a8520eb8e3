// SPDX-License-Identifier: Apache-2.0
// How long one time step of a plan takes, in parts that sum to the total.
//
//   exchange    latency of the all-to-all exchange: emit, L2, poll, both block barriers (model/exchange/exchange_time.hpp)
//   staging     copying the state from L2 to shared memory
//   gather      wavefronts of the state gathers, and of weights outside registers, one after another through the SM's
//               shared-memory pipe
//   arithmetic  what the busiest warp scheduler, or the chain of multiply-adds of one warp, takes beyond the gathers
//   reduction   shuffles over the lanes of a row, for each tile of a group
//   activation  the cell's transcendental functions; in dense kernels with what follows until the state is stored
//   streaming   what copying the streamed weights from L2 takes beyond all of the above
//
// Where samples take turns (kernels/sparse/pipeline.cuh), exchange and staging are what a step still waits for them.
//
// Constants are the chip's, measured by microbenchmarks, never fitted to the kernel that is predicted; how much longer
// exchange warps take beside others was chosen by steps that were measured (model/plan/step_time.cpp).
#pragma once

#include "model/chip/chip.hpp"
#include "model/plan/footprint.hpp"
#include "model/plan/plan.hpp"

#include <array>
#include <cstdint>
#include <string_view>

namespace onchip {

enum class Part : std::uint8_t { exchange, staging, gather, arithmetic, reduction, activation, streaming };
inline constexpr std::array<std::string_view, 7> kPartNames{"exchange",  "staging",    "gather",   "arithmetic",
                                                            "reduction", "activation", "streaming"};
constexpr std::string_view name(Part part) {
  return kPartNames[static_cast<int>(part)];
}

struct Prediction {
  Footprint footprint;
  double step_us = 0;              // the sum of the parts
  double low_us = 0, high_us = 0;  // 95 % interval, from those of the chip's constants and of the model's form
  double floor_us = 0;             // what physics allows: exchange of the state and conflict-free gathers
  std::array<double, kPartNames.size()> parts_us{};  // indexed by Part
  Part binding = Part::exchange;                     // the largest part; the time's counterpart to Footprint::binding
};

// Expected shared-memory wavefronts of the gathers of one SM and step, and the least possible. Closed forms for uniform
// masks: rows of equal expected length, columns at random.
struct ExpectedWavefronts {
  double expected = 0, ideal = 0;
};
ExpectedWavefronts expected_wavefronts(const Network& network, const Plan& plan);

// What reading the states of all non-zeros takes, spread evenly over the SMs, without a conflict or a padded slot.
double conflict_free_reads_us(const Chip& chip, const Network& network, const Plan& plan);

// Half of the 95 % interval of a step: of its exchange, how far the exchange alone scatters around the formula, twice,
// because in a step the SMs do not all come at once; of the rest, what overlaps. Twice is what holds 95 % of 343 steps
// measured on an H200 (experiments/data/h200/validation.csv) in the narrowest intervals.
double half_interval_us(const Chip& chip, double exchange_us, double step_us);

// Allocates nothing; well under a microsecond.
Prediction predict(const Chip& chip, const Network& network, const Plan& plan);

}  // namespace onchip
