// SPDX-License-Identifier: Apache-2.0
// Which plan, and how large a network: searches over the plans that the kernels can run.
#pragma once

#include "model/chip/chip.hpp"
#include "model/families/plan.hpp"
#include "model/plan/family.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

using PlannedNetwork = Planned<RecurrentPlan>;

// The fastest plan that fits; if none fits, the one that misses by least (its footprint says by how much). Of the
// families that keep the weights on the chip, unless another is asked for. Throws InputError where no family has a
// candidate.
PlannedNetwork choose_plan(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                           const Constraints& constraints = {}, Effort effort = Effort::bounded);
// Whether that one fits, which takes less time to tell.
bool any_plan_fits(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                   const Constraints& constraints = {});

// The fastest of the libraries, which run every network.
PlannedNetwork fastest_library(const Chip& chip, const Recurrent& network);

// The best plan of every family, libraries among them, the fastest first, then those that do not fit, then families
// that cannot run the network as it is asked for; with why it is the answer or why it is not.
struct RankedPlan {
  std::string_view family;
  std::optional<PlannedNetwork> planned;
  std::string why;  // "0.48 us slower, most of it gather: 0.461 instead of 0.000 us"
};
std::vector<RankedPlan> rank_families(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                                      const Constraints& constraints = {});

}  // namespace onchip
