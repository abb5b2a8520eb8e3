// SPDX-License-Identifier: Apache-2.0
// A simulated network in the three output forms; the JSON has predict's keys, with the simulator's parts as terms, and
// more.
#pragma once

#include "experiments/command/report.hpp"
#include "sim/simulate.hpp"
#include "sim/trace/trace_run.hpp"

#include <optional>
#include <string_view>

namespace onchip {

// The family whose steps the simulator replays.
inline constexpr std::string_view kReplayedFamily = SparsePlan::kName;

struct SimulatedCase {
  Case planned;                          // what predict says of the same plan
  std::optional<Simulation> simulation;  // nothing if the plan does not fit
  std::vector<BlockBanks> banks;         // [SMs], of a whole step with its staging; empty if it was not asked for
};

Json to_json(const SimulatedCase& answer);
std::vector<std::string> simulation_columns();
std::vector<std::string> simulation_cells(const SimulatedCase& answer);
std::string to_text(const SimulatedCase& answer);

// Of all blocks of a trace: instructions, wavefronts, conflict degrees, multicasts, words per bank.
Json to_json(const std::vector<BlockBanks>& banks);
std::string to_text(const std::vector<BlockBanks>& banks);

// Smallest, median and largest.
struct Spread {
  double least = 0, median = 0, most = 0;
};
Spread spread_of(std::vector<double> values);

}  // namespace onchip
