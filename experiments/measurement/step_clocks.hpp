// SPDX-License-Identifier: Apache-2.0
// Where the time of a step goes: the kernel run once with a clock at each of its points
// (kernels/recurrent/recurrence.hpp).
#pragma once

#include "kernels/recurrent/recurrence.hpp"

#include <array>

namespace onchip {

// Cycles from the mark before to each of kStepMarks (the first: from the last of the step before), over steps and SMs.
struct StepClocks {
  std::array<double, kStepMarks.size()> mean{};     // over the warps
  std::array<double, kStepMarks.size()> slowest{};  // of the slowest warp of an SM
};

// Runs the first of `sequences`' steps on the current device. The clocks take some time themselves, up to a tenth of a
// short step.
inline constexpr int kClockedSteps = 64;
StepClocks measure_step_clocks(const Layout& layout, Sequences sequences);

}  // namespace onchip
