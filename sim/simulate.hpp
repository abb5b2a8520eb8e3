// SPDX-License-Identifier: Apache-2.0
// One time step of a plan, simulated: every SM's body cycle by cycle (sim/machine/sm.hpp), then the exchange between
// them until the steps are steady (sim/exchange/exchange.hpp). The same for any number of threads.
//
//   step      mean time from step to step
//   parts     they sum to the step: the mean SM's body by cause; skew: what the SM that emits last is behind the mean;
//             exchange: from its emission until the SMs go on, on average
//
// Where passes are pipelined, every pass has its body and its exchange (run_pipelined). A body ends when the computing
// warps have announced it; producer warps move the state of another pass meanwhile, through the same pipes, and have
// what is left of the issue slots. What a step takes beyond its bodies is its exchange.
#pragma once

#include "sim/machine/sm.hpp"
#include "sim/sparse/plan_trace.hpp"

#include <array>
#include <memory>
#include <string_view>
#include <vector>

namespace onchip {

enum class StepPart : std::uint8_t { shared_memory, issue, barrier, scoreboard, skew, exchange };
inline constexpr std::array<std::string_view, 6> kStepPartNames{"shared_memory", "issue", "barrier",
                                                                "scoreboard",    "skew",  "exchange"};
constexpr std::string_view name(StepPart part) {
  return kStepPartNames[static_cast<int>(part)];
}

struct SimulationOptions {
  SmOptions sm;
  bool exchange = true;  // else: the exchange takes no time
  bool skew = true;      // else: every SM takes as long as the mean
  int threads = 1;
};

// The bodies of one pass, [SMs]: when they begin, from the step's first, and how long they take.
struct PassBodies {
  std::vector<double> begin_us, body_us;
};

struct Simulation {
  double step_us = 0;
  double low_us = 0, high_us = 0;  // 95 % interval, from the scatters of the chip file, as in the analytic model
  std::array<double, kStepPartNames.size()> parts_us{};  // by StepPart
  std::vector<SmRun> sms;                // bodies, one pass after another; without events unless asked for
  std::vector<PassBodies> passes;        // those that are pipelined, else one
  std::vector<double> body_us, wait_us;  // [SMs]: from the barrier after staging to the last emission; from there on
  double polls = 0;                      // of lines of the state, per step and SM

  StepPart binding() const;  // the largest part
};

// Sparse plans; dense ones, but not in a cluster.
bool is_replayed(const RecurrentPlan& plan);

// The stream of a plan as the chip's registers let the compiler order it. Throws InputError for one that is not
// replayed.
std::unique_ptr<TraceSource> plan_trace(const Chip& chip, Layout layout);

// `trace` is a step: of a plan, or one that was recorded (TraceSource::step()).
Simulation simulate(const Chip& chip, const TraceSource& trace, const SimulationOptions& options = {});

}  // namespace onchip
