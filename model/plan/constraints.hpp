// SPDX-License-Identifier: Apache-2.0
// What a user fixes of a plan; the planner chooses the rest. A fixed field is known by its name, whichever families
// have it: a family that does not know the field, or not that value, is no candidate.
#pragma once

#include "model/base/error.hpp"
#include "model/plan/choices.hpp"
#include "model/plan/field.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

struct FixedField {
  std::string_view name;  // static: of a table of fields
  int value = 0;          // of an enumeration: its number
  std::string_view text;  // of an enumeration: its name
  bool is_usual = false;  // what a family without the field has anyway
};

struct Constraints {
  std::optional<std::string> family;  // by the name that a plan's text begins with
  std::optional<Tier> tier;           // weights lie in this tier at most
  int spare_registers = 0;            // that a thread leaves to the compiler beyond what the model counts
  std::vector<FixedField> fixed;

  const FixedField* find(std::string_view name) const {
    const auto found = std::ranges::find(fixed, name, &FixedField::name);
    return found == fixed.end() ? nullptr : &*found;
  }
};

// The value that is fixed for a member of a family's plan: fixed_value<&SparsePlan::sms>(constraints).
template <auto kMember>
auto fixed_value(const Constraints& constraints) {
  using M = detail::Member<kMember>;
  using Value = std::remove_cvref_t<decltype(typename M::Plan{}.*kMember)>;
  std::optional<Value> value;
  if (!constraints.fixed.empty()) {
    for (const Field<typename M::Plan>& field : fields(typename M::Plan{})) {
      if (field.get == M::get) {
        if (const FixedField* fixed = constraints.find(field.name)) {
          value = static_cast<Value>(fixed->value);
        }
      }
    }
  }
  return value;
}

// Fixes a member: fix<&SparsePlan::sms>(constraints, 16). A later value takes the place of an earlier one.
template <auto kMember, typename Value>
void fix(Constraints& constraints, Value value) {
  using M = detail::Member<kMember>;
  for (const Field<typename M::Plan>& field : fields(typename M::Plan{})) {
    if (field.get == M::get) {
      std::erase_if(constraints.fixed, [&](const FixedField& fixed) { return fixed.name == field.name; });
      const int number = static_cast<int>(value);
      constraints.fixed.push_back({field.name, number,
                                   field.is_number() ? "" : field.names[static_cast<std::size_t>(number)],
                                   field.usual == number});
    }
  }
}

// Why the family of plans `P` is no candidate, "" if it is one:
//   "dense_persistent has no lanes_per_row", "sparse_persistent knows no storage bitmap"
template <typename P>
std::string why_not_possible(const Constraints& constraints) {
  for (const FixedField& fixed : constraints.fixed) {
    const auto table = fields(P{});
    const auto field = std::ranges::find(table, fixed.name, &Field<P>::name);
    if (field == table.end()) {
      if (!fixed.is_usual) {
        return std::string(P::kName) + " has no " + std::string(fixed.name);
      }
    } else if (!field->allows(fixed.value)) {
      return std::string(P::kName) + (field->is_number() ? " allows no " : " knows no ") + std::string(fixed.name) +
             " " + (field->is_number() ? std::to_string(fixed.value) : std::string(fixed.text));
    }
  }
  return "";
}

}  // namespace onchip
