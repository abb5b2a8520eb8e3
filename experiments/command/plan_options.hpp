// SPDX-License-Identifier: Apache-2.0
// What a user may fix of a plan, as options: one for each field that some family lets a user fix.
#pragma once

#include "experiments/command/options.hpp"
#include "model/plan/constraints.hpp"

namespace onchip {

// --family, --tier, and --lanes-per-row for a field lanes_per_row.
OptionGroup plan_options();
Constraints read_constraints(const Options& options);

}  // namespace onchip
