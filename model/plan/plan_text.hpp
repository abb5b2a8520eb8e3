// SPDX-License-Identifier: Apache-2.0
// Plans as text, "sparse_persistent packed_pair bank_aware lamport sms=132 threads=576 ...", and back; used in data
// files and on the command line. A plan says its family, its enumerations by their names alone, its lists, and the
// numbers that are not as usual. Made from the families' tables of fields, for any variant of plans.
#pragma once

#include "model/base/error.hpp"
#include "model/base/joined.hpp"
#include "model/plan/field.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace onchip {

// A value of a field in words: of an enumeration its name, else the number.
template <typename P>
std::string value_text(const Field<P>& field, int value) {
  return field.is_number() ? std::to_string(value) : std::string(field.names[static_cast<std::size_t>(value)]);
}

// "a whole number from 1 to 4096", "a power of two from 1 to 32", "packed_pair, dense or packed_delta"
template <typename P>
std::string expected_text(const Field<P>& field) {
  if (field.is_number()) {
    return std::string(field.is_power_of_two ? field.minimum == 0 ? "0 or a power of two" : "a power of two"
                                             : "a whole number from " + std::to_string(field.minimum)) +
           (field.is_power_of_two && field.minimum > 0 ? " from " + std::to_string(field.minimum) : "") +
           (field.is_power_of_two && field.minimum == 0 ? " up to " : " to ") + std::to_string(field.maximum);
  }
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < field.names.size(); ++i) {
    if (field.allows(static_cast<int>(i))) {
      names.push_back(field.names[i]);
    }
  }
  return joined(names, ", ", " or ");
}

// Old names of plan fields and families' values, with the new ones: what is refused by name.
std::string_view new_name(std::string_view old_name);  // "" if it is no old name

// Throws InputError unless every number is within its field's range.
template <typename P>
void check_ranges(const P& plan) {
  for (const Field<P>& field : fields(plan)) {
    if (!field.is_list() && !field.allows(field.get(plan))) {
      throw InputError("plan: expected " + std::string(field.name) + " to be " + expected_text(field) + ", found " +
                       std::to_string(field.get(plan)));
    }
  }
}

// The whole number that a plan's text gives for `what`. Throws InputError for another text, and below zero.
int parse_count(std::string_view text, std::string_view what);

// What stands between separators outside of brackets, "[a b] c" in two at blanks; of an empty text one empty part.
std::vector<std::string_view> split_text(std::string_view text, char between);

namespace detail {

// Takes "key=value" or a name alone; throws InputError for what the family does not know.
template <typename P>
void take_word(P& plan, std::string_view word) {
  const std::size_t equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  const auto table = fields(plan);
  std::vector<std::string_view> names;
  if (equals == std::string_view::npos) {
    for (const Field<P>& field : table) {
      const auto found = std::ranges::find(field.names, word);
      if (found != field.names.end() && field.allows(static_cast<int>(found - field.names.begin()))) {
        field.set(plan, static_cast<int>(found - field.names.begin()));
        return;
      }
      for (std::size_t i = 0; i < field.names.size(); ++i) {
        if (field.allows(static_cast<int>(i))) {
          names.push_back(field.names[i]);
        }
      }
    }
    throw InputError("plan: " + std::string(P::kName) + " does not know '" + std::string(word) + "'" +
                     did_you_mean(word, names));
  }
  const std::string_view value = word.substr(equals + 1);
  for (const Field<P>& field : table) {
    if (field.is_list() || (field.is_number() && field.is_said)) {
      if (field.name == key) {
        field.is_list() ? field.read(plan, value) : field.set(plan, parse_count(value, key));
        return;
      }
      names.push_back(field.name);
    }
  }
  const std::string_view today = new_name(key);
  throw InputError("plan: unknown key '" + std::string(key) + "'" +
                   (today.empty() ? did_you_mean(key, names) : "; it is called " + std::string(today) + " now"));
}

}  // namespace detail

// What stands behind the family's name, "batch_groups=4 warps=16".
template <typename P>
std::string fields_text(const P& plan) {
  std::string text;
  for (const Field<P>& field : fields(plan)) {
    const std::string_view blank = text.empty() ? "" : " ";
    if (field.is_list()) {
      const std::string list = field.write(plan);
      text += list.empty() && field.may_lack ? "" : std::string(blank) + std::string(field.name) + '=' + list;
    } else if (!field.is_number()) {
      text += std::string(blank) + value_text(field, field.get(plan));
    } else if (const int value = field.get(plan); field.is_said && field.usual != value) {
      text += std::string(blank) + std::string(field.name) + '=' + std::to_string(value);
    }
  }
  return text;
}

template <typename P>
std::string plan_text(const P& plan) {
  const std::string words = fields_text(plan);
  return std::string(P::kName) + (words.empty() ? "" : " ") + words;
}

template <typename... P>
std::string plan_text_of(const std::variant<P...>& plan) {
  return std::visit([](const auto& of_family) { return plan_text(of_family); }, plan);
}

// The plan with these fields, the others as they are; returns the keys that stand there. Throws InputError for an
// unknown or repeated key, and an unknown name. Numbers are not checked against their ranges, see check_ranges().
template <typename P>
std::vector<std::string_view> take_words(P& plan, std::string_view text) {
  std::vector<std::string_view> keys;
  for (const std::string_view word : split_text(text, ' ')) {
    if (word.empty()) {
      continue;
    }
    keys.push_back(word.substr(0, word.find('=')));
    if (std::ranges::count(keys, keys.back()) > 1) {
      throw InputError("plan: '" + std::string(keys.back()) + "' stands twice");
    }
    detail::take_word(plan, word);
  }
  return keys;
}

// The same, with its ranges checked.
template <typename P>
P changed(P plan, std::string_view text) {
  take_words(plan, text);
  check_ranges(plan);
  return plan;
}

// The plan of a family from what stands behind the family's name. Throws InputError as take_words() does, and for a
// list that is missing.
template <typename P>
P read_plan(std::string_view text) {
  P plan;
  const std::vector<std::string_view> keys = take_words(plan, text);
  for (const Field<P>& field : fields(plan)) {
    const bool is_missing = field.is_list() && std::ranges::find(keys, field.name) == keys.end();
    if (is_missing && !(field.may_lack && field.write(plan).empty())) {
      throw InputError("plan: " + std::string(P::kName) + " expects '" + std::string(field.name) + "=', too");
    }
  }
  return plan;
}

// A plan within a plan, "forward=[batch_groups=4 warps=16]". Reading it throws InputError for numbers beyond their
// ranges, too. kIsThere: of plans that have it; the text of others leaves it out.
template <auto kMember, auto kIsThere = nullptr>
constexpr auto nested(std::string_view name) {
  using M = detail::Member<kMember>;
  using P = typename M::Plan;
  using Inner = std::remove_cvref_t<decltype(P{}.*kMember)>;
  auto field = list<P>(
      name,
      [](const P& plan) {
        if constexpr (!std::is_null_pointer_v<decltype(kIsThere)>) {
          return kIsThere(plan) ? '[' + fields_text(plan.*kMember) + ']' : "";
        } else {
          return '[' + fields_text(plan.*kMember) + ']';
        }
      },
      [](P& plan, std::string_view text) {
        if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
          throw InputError("plan: expected fields in brackets, such as '[" + fields_text(Inner{}) + "]', found '" +
                           std::string(text) + "'");
        }
        plan.*kMember = changed(Inner{}, text.substr(1, text.size() - 2));
      });
  field.may_lack = !std::is_null_pointer_v<decltype(kIsThere)>;
  return field;
}

// Throws InputError for an unknown family, and as read_plan() does.
template <typename... P>
std::variant<P...> parse_plan_of(std::type_identity<std::variant<P...>>, std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view family = text.substr(0, text.find(' '));
  const std::string_view words = text.substr(family.size());
  std::optional<std::variant<P...>> plan;
  ((family == P::kName ? void(plan = read_plan<P>(words)) : void()), ...);
  if (!plan) {
    const std::vector<std::string_view> names{P::kName...};
    throw InputError("plan: unknown family '" + std::string(family) + "'" + did_you_mean(family, names));
  }
  return *plan;
}

}  // namespace onchip
