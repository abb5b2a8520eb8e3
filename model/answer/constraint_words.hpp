// SPDX-License-Identifier: Apache-2.0
// What is fixed of a plan, in words: of options, of cells of a file, and of JSON. The words are those of the families'
// tables of fields (model/plan/field.hpp).
#pragma once

#include "model/families/plan.hpp"
#include "model/plan/constraints.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// A name of a field that some family lets a user fix, each once, with the help of all families that have it.
struct FixableField {
  std::string_view name, argument;
  std::string help;
};
const std::vector<FixableField>& fixable_fields();

// Fixes the field with this name by its value in words, "16" or "packed_pair". Throws InputError "NAME: found ...:
// expected ..." for a value that no family's field may have; `shown_name` is what the user called it, "" as the field.
void fix_field(Constraints& constraints, std::string_view name, std::string_view value,
               std::string_view shown_name = "");

// Throws InputError with all names.
const FamilyInfo& find_family(std::string_view name);
Tier parse_tier(std::string_view name);

// "sparse_persistent or dense_persistent": the families that keep the weights on the chip, or the libraries.
std::string family_names(bool on_chip);
// Throws InputError for a library's family, of which there is no largest network; "" is none.
void check_is_on_chip(std::string_view family);

}  // namespace onchip
