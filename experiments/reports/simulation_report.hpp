// SPDX-License-Identifier: Apache-2.0
// A simulated network or trace in the three output forms; a network's JSON has predict's keys, with the simulator's
// parts as terms, and more.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/reports/recurrent_report.hpp"
#include "sim/machine/trace_run.hpp"
#include "sim/simulate.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace onchip {

// The family whose steps the simulator replays.
inline constexpr std::string_view kReplayedFamily = SparsePlan::kName;

// Numbers with blanks between.
inline std::string joined(const auto& numbers) {
  std::string text;
  for (const auto number : numbers) {
    text += (text.empty() ? "" : " ") + std::to_string(number);
  }
  return text;
}

// Of a whole step with its staging, or of a trace's blocks.
struct SmBanks {
  std::vector<BlockBanks> all;         // [SMs]; empty if they were not asked for
  std::optional<BlockAccesses> of_sm;  // of one of them, if it was asked for
};

struct SimulatedCase {
  RecurrentCase planned;                 // what predict says of the same plan
  std::optional<Simulation> simulation;  // nothing if the plan does not fit
  SmBanks banks;
};

Json to_json(const SimulatedCase& answer);
std::vector<std::string> simulation_columns();
std::vector<std::string> simulation_cells(const SimulatedCase& answer);
std::string to_text(const SimulatedCase& answer);

// A kernel from a file: a step, and one whose blocks exchange nothing. The JSON is without the chip.
Report report_step(const std::string& kernel, const Chip& chip, const Simulation& simulation, const SmBanks& banks);
Report report_blocks(const std::string& kernel, const Chip& chip, const TraceRun& run, const SmBanks& banks);

}  // namespace onchip
