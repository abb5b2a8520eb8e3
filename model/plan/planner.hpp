// SPDX-License-Identifier: Apache-2.0
// Which plan, and how large a network: searches over the plans that the kernels can run.
#pragma once

#include "model/chip/chip.hpp"
#include "model/plan/family.hpp"
#include "model/plan/plan.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

using PlannedNetwork = Planned<Plan>;

// The fastest plan that fits; if none fits, the one that misses by least (its footprint says by how much). Of the
// families that keep the weights on the chip, unless another is asked for. Throws InputError where no family has a
// candidate.
PlannedNetwork choose_plan(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                           const Constraints& constraints = {}, Effort effort = Effort::bounded);
// Whether that one fits, which is told more quickly.
bool any_plan_fits(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                   const Constraints& constraints = {});

// The fastest of the libraries, which run every network.
PlannedNetwork quickest_library(const Chip& chip, const Recurrent& network);

// The best plan of every family, libraries among them, the fastest first, then those that do not fit, then families
// that cannot run the network as it is asked for; with why it is the answer or why it is not.
struct RankedPlan {
  std::string_view family;
  std::optional<PlannedNetwork> planned;
  std::string why;  // "0.48 us slower, most of it gather: 0.461 instead of 0.000 us"
};
std::vector<RankedPlan> rank_families(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                                      const Constraints& constraints = {});

// The plan of a network of a given size.
using PlanOf = std::function<PlannedNetwork(const Recurrent&, const Constraints&)>;

// The largest hidden size, a multiple of `granule`, that fits with its fastest plan, everything else as in `network`,
// and the next granule, which does not. The search goes by the expected rows of a uniform mask, or of one that is 2:4;
// with `exact`, which may take long (a certain mask, a compiler), only its end is decided by that. Unless asked
// otherwise, what fits stays in registers and shared memory: no step reads a weight from L2.
struct Capacity {
  std::optional<PlannedNetwork> largest;  // nothing if not even one granule fits
  PlannedNetwork next;                    // does not fit; its footprint says what would have to change
};
Capacity find_capacity(const Chip& chip, const Recurrent& network, int granule, const Constraints& constraints = {},
                       const PlanOf& exact = {}, MaskKind kind = MaskKind::uniform);

// How capacity and step time answer to 10 % more of one chip number, everything else unchanged.
struct Sensitivity {
  std::string_view key;
  double hidden_percent = 0;  // change of the largest hidden size
  double step_percent = 0;    // change of the step time of the fastest plan
};
// For every chip number that matters to the answer, largest effect first; numbers without effect are left out. Computed
// on all cores.
std::vector<Sensitivity> sensitivities(const ChipFile& chip, const Recurrent& network, const RowProfile& rows,
                                       int granule, const Constraints& constraints = {});

}  // namespace onchip
