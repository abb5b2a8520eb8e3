// SPDX-License-Identifier: Apache-2.0
#include "model/answer/constraint_words.hpp"

#include "model/base/error.hpp"
#include "model/base/joined.hpp"
#include "model/base/number.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <utility>

namespace onchip {
namespace {

// A field of one family that a user may fix.
struct FamilyField {
  std::string_view family, name, argument, help;
  std::span<const std::string_view> names;  // of an enumeration
  std::function<bool(int)> allows;
  std::optional<int> usual;
  std::string expected;
};

template <typename P>
void append_fields(std::vector<FamilyField>& list) {
  for (const Field<P>& field : fields(P{})) {
    if (field.is_option()) {
      list.push_back({P::kName, field.name, field.argument, field.help, field.names,
                      [&field](int value) { return field.allows(value); }, field.usual, expected_text(field)});
    }
  }
}

template <typename... P>
std::vector<FamilyField> fields_of(std::type_identity<std::variant<P...>>) {
  std::vector<FamilyField> list;
  (append_fields<P>(list), ...);
  return list;
}

// Of all families, in the order of their tables.
const std::vector<FamilyField>& family_fields() {
  static const std::vector<FamilyField> list = fields_of(std::type_identity<RecurrentPlan>{});
  return list;
}

std::vector<const FamilyField*> fields_called(std::string_view name) {
  std::vector<const FamilyField*> found;
  for (const FamilyField& field : family_fields()) {
    if (field.name == name) {
      found.push_back(&field);
    }
  }
  return found;
}

// What the families say of a field of this name, each once; with the family, unless all that have options say it.
std::string said_of(const std::vector<const FamilyField*>& fields, std::string_view between,
                    const std::function<std::string(const FamilyField&)>& said) {
  std::vector<std::string_view> families;
  for (const FamilyField& field : family_fields()) {
    if (std::ranges::find(families, field.family) == families.end()) {
      families.push_back(field.family);
    }
  }
  std::vector<std::pair<std::string, std::vector<std::string_view>>> parts;  // what is said, by which families
  for (const FamilyField* field : fields) {
    const std::string words = said(*field);
    auto part = std::ranges::find(parts, words, &std::pair<std::string, std::vector<std::string_view>>::first);
    if (part == parts.end()) {
      part = parts.insert(parts.end(), {words, {}});
    }
    part->second.push_back(field->family);
  }
  return joined(parts, between, "", [&](const auto& part) {
    return (part.second.size() < families.size() ? joined(part.second) + ": " : "") + part.first;
  });
}

// Of an enumeration: the names that some family knows.
std::vector<std::string_view> known_names(const std::vector<const FamilyField*>& fields) {
  std::vector<std::string_view> known;
  const auto& names = fields.front()->names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::ranges::any_of(fields, [&](const FamilyField* field) { return field->allows(static_cast<int>(i)); })) {
      known.push_back(names[i]);
    }
  }
  return known;
}

std::optional<int> value_of(const FamilyField& field, std::string_view word) {
  if (!field.names.empty()) {
    const auto found = std::ranges::find(field.names, word);
    return found == field.names.end() ? std::nullopt : std::optional(static_cast<int>(found - field.names.begin()));
  }
  return number_in<int>(word);
}

}  // namespace

const std::vector<FixableField>& fixable_fields() {
  static const std::vector<FixableField> list = [] {
    std::vector<FixableField> fields;
    for (const FamilyField& field : family_fields()) {
      if (std::ranges::find(fields, field.name, &FixableField::name) == fields.end()) {
        const auto help = [](const FamilyField& of_family) { return std::string(of_family.help); };
        fields.push_back({field.name, field.argument, said_of(fields_called(field.name), " ", help)});
      }
    }
    return fields;
  }();
  return list;
}

void fix_field(Constraints& constraints, std::string_view name, std::string_view word, std::string_view shown_name) {
  const std::vector<const FamilyField*> fields = fields_called(name);
  const std::optional<int> value = value_of(*fields.front(), word);
  const auto allows = [&](const FamilyField* field) { return field->allows(*value); };
  if (!value || std::ranges::none_of(fields, allows)) {
    throw InputError(
        std::string(shown_name.empty() ? name : shown_name) + ": found " + in_quotes(word) + ": expected " +
        (fields.front()->names.empty() ? said_of(fields, "; ", [](const FamilyField& field) { return field.expected; })
                                       : joined(known_names(fields), ", ", " or ")));
  }
  const auto& names = fields.front()->names;
  std::erase_if(constraints.fixed, [&](const FixedField& fixed) { return fixed.name == name; });
  constraints.fixed.push_back(
      {fields.front()->name, *value, names.empty() ? "" : names[static_cast<std::size_t>(*value)],
       std::ranges::any_of(fields, [&](const FamilyField* field) { return field->usual == *value; })});
}

std::string family_names(bool on_chip) {
  std::vector<std::string_view> names;
  for (const FamilyInfo& family : families()) {
    if (family.is_on_chip == on_chip) {
      names.push_back(family.name);
    }
  }
  return joined(names, ", ", " or ");
}

const FamilyInfo& find_family(std::string_view name) {
  const auto found = std::ranges::find(families(), name, &FamilyInfo::name);
  if (found == families().end()) {
    throw InputError("unknown family " + in_quotes(name) + ": expected " + family_names(true) +
                     ", or of the libraries " + family_names(false));
  }
  return *found;
}

void check_is_on_chip(std::string_view family) {
  if (!family.empty() && !find_family(family).is_on_chip) {
    throw InputError(std::string(family) + " keeps nothing on the chip: expected " + family_names(true) + " here");
  }
}

Tier parse_tier(std::string_view name) {
  const auto found = std::ranges::find(kTierNames, name);
  if (found == kTierNames.end()) {
    throw InputError("unknown tier " + in_quotes(name) + ": expected " + joined(kTierNames, ", ", " or "));
  }
  return static_cast<Tier>(found - kTierNames.begin());
}

}  // namespace onchip
