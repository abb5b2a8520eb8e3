// SPDX-License-Identifier: Apache-2.0
// Plans for those who compile them. The registers that the model counts are a fit to the compiler (registers.hpp of a
// family), and now and then a kernel needs one or two more: then the next best plan is taken that leaves it some to
// spare.
#pragma once

#include "model/families/planner.hpp"

#include <string>
#include <vector>

namespace onchip {

// choose_plan()'s plan, if the compiler keeps its kernel's values in registers or it does not fit anyway; else the
// fastest with 2 registers of a thread to spare, or 4, up to 8; else the first again. Compiles for `architecture`
// ("sm_90"), or finds in the cache; a kernel that does not compile counts as free of spills.
PlannedNetwork choose_spill_free_plan(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                                      Constraints constraints, const std::string& architecture);

// Likewise for rank_families(): with registers to spare in all families.
std::vector<RankedPlan> rank_spill_free_families(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                                                 Constraints constraints, const std::string& architecture);

}  // namespace onchip
