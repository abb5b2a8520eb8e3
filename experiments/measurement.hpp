// SPDX-License-Identifier: Apache-2.0
// One plan on the real GPU: checked against the double-precision reference, then timed, alone or in turns with
// opponents (kernels/opponents).
#pragma once

#include "experiments/step_clocks.hpp"
#include "kernels/device.hpp"
#include "kernels/opponents/opponent.hpp"
#include "model/layout.hpp"

#include <optional>
#include <string>
#include <vector>

namespace onchip {

struct Measurement {
  int registers = 0;          // per thread, as compiled
  std::string fingerprint;    // of the kernel that ran
  double relative_error = 0;  // of the first check_steps steps against the reference
  double tolerance = 0;
  bool correct = false;
  Timing step_us;                         // steady state: (time of 2 T steps - time of T steps) / T
  Timing exchange_us;                     // the same plan's exchange without its gathers and cells, if asked for
  Timing sequence_us;                     // one whole launch of network.steps steps, ring set-up included
  std::optional<StepClocks> clocks;       // if asked for
  std::vector<OpponentResult> opponents;  // whole sequence / steps
};

struct MeasureOptions {
  int check_steps = 12;
  int repeats = 15;
  std::uint64_t seed = 1;  // of input and initial state
  bool floor = false;      // also time the exchange alone, in turns with the kernel
  bool clocks = false;     // and see where the time of a step goes
  bool opponents = false;  // every candidate runs once after each of our samples
};

// Runs the layout on the current device. Every output is poisoned first. A wrong result is reported, not timed. Throws
// InputError for a sequence that the device's memory cannot hold.
Measurement measure(const Layout& layout, const SparseMatrix& matrix, const MeasureOptions& options);

}  // namespace onchip
