// SPDX-License-Identifier: Apache-2.0
// A step of a training recurrence, simulated: some steps of one SM cycle by cycle (sim/machine/sm.hpp), of which the
// last are counted. All SMs do the same, so the states that this one waits for are published when it publishes its own:
// what one SM stores another sees after the way to L2 and back, with a crossing of its halves (sim/exchange).
#pragma once

#include "model/chip/chip.hpp"
#include "sim/simulate.hpp"
#include "sim/training/recurrence_trace.hpp"

#include <array>

namespace onchip {

struct RecurrenceRun {
  double step_us = 0;
  // They sum to the step: what the first warps of the warp groups spend it on, on average, by RecurrencePart.
  std::array<double, kRecurrencePartNames.size()> parts_us{};
  double polls_in_vain = 0;  // loads of the state that found nothing, of an SM and step

  RecurrencePart binding() const;  // the largest part
};

// Without `options.exchange` what is stored is there at once; all SMs take as long (options.skew). Throws InputError
// for a plan that the kernel does not have.
RecurrenceRun simulate_recurrence(const Chip& chip, const TrainingSize& size, const RecurrencePlan& plan,
                                  bool is_backward, const SimulationOptions& options = {});

}  // namespace onchip
