// SPDX-License-Identifier: Apache-2.0
// What a user may fix of a plan, as options and as cells of a row. The options are made of the families' tables of
// fields (model/plan/field.hpp): one for each name, whichever families have the field.
#pragma once

#include "experiments/command/options.hpp"
#include "model/plan/constraints.hpp"
#include "model/plan/plan.hpp"

#include <string>
#include <string_view>

namespace onchip {

// --family, --tier, and --lanes-per-row for a field lanes_per_row that some family lets a user fix.
OptionGroup plan_options();
Constraints read_constraints(const Options& options);

// Fixes the field with this name by its value in words, "16" or "packed_pair". Throws InputError "NAME: found ...:
// expected ..." for a value that no family's field may have; `shown_name` is what the user called it, "" as the field.
void fix_field(Constraints& constraints, std::string_view name, std::string_view value,
               std::string_view shown_name = "");

// Throws InputError with all names.
const FamilyInfo& find_family(std::string_view name);
Tier parse_tier(std::string_view name);

// "sparse_persistent or dense_persistent": the families that keep the weights on the chip, or the libraries.
std::string family_names(bool on_chip);

}  // namespace onchip
