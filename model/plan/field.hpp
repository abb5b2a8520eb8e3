// SPDX-License-Identifier: Apache-2.0
// The fields of a family's plan, each named once. From this table come the text form and its parsing
// (plan/plan_text.hpp), JSON, the ranges of validity, the options of the command line and the constraints they make
// (plan/constraints.hpp), and the -D list of the family's kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace onchip {

// A field of a plan `P`: a number with a range; an enumeration with names, of which the family may know only some; or a
// list, whose text is made and read by functions of its family and has no blanks outside of brackets.
//
//   number<&SparsePlan::sms>("sms", 1, kMostSms).option("N", "Use this many SMs.").define()
//   list<SparsePlan>("slots", slots_text, read_slots)
template <typename P>
struct Field {
  std::string_view name = {};  // "lanes_per_row"; the option is --lanes-per-row, the definition ONCHIP_LANES_PER_ROW
  int (*get)(const P&) = nullptr;
  void (*set)(P&, int) = nullptr;
  std::span<const std::string_view> names = {};  // of an enumeration; empty: a number
  std::uint32_t known = ~0u;                     // bit i: the family knows names[i]
  // Of a list, which has none of get, set and names. read() throws InputError for what is no such list.
  std::string (*write)(const P&) = nullptr;
  void (*read)(P&, std::string_view) = nullptr;
  bool may_lack = false;         // plans for which write() has no text are without the list
  int minimum = 0, maximum = 0;  // inclusive
  bool is_power_of_two = false;  // or 0, where that is in range
  bool is_said = true;           // in the text form
  bool is_defined = false;       // the kernel is compiled with it
  // What it is in a plan that does not use it. The text form leaves it out then, and a family without the field is
  // taken to have it so.
  std::optional<int> usual = {};
  std::string_view argument = {}, help = {};  // of the option by which a user may fix it; empty: there is none

  constexpr Field option(std::string_view of_argument, std::string_view of_help) const {
    Field field = *this;
    field.argument = of_argument;
    field.help = of_help;
    return field;
  }
  constexpr Field define() const {
    Field field = *this;
    field.is_defined = true;
    return field;
  }
  constexpr Field usually(int value) const {
    Field field = *this;
    field.usual = value;
    return field;
  }
  constexpr Field power_of_two() const {
    Field field = *this;
    field.is_power_of_two = true;
    return field;
  }
  constexpr Field unsaid() const {
    Field field = *this;
    field.is_said = false;
    return field;
  }

  constexpr bool is_list() const { return write != nullptr; }
  constexpr bool is_number() const { return names.empty() && !is_list(); }
  constexpr bool is_option() const { return !help.empty(); }
  constexpr bool allows(int value) const {
    if (!is_number()) {
      return value >= 0 && value < static_cast<int>(names.size()) && (known >> value & 1u) != 0;
    }
    return value >= minimum && value <= maximum && !(is_power_of_two && (value & (value - 1)) != 0);
  }
};

namespace detail {
template <auto kMember>
struct Member;
template <typename P, typename T, T P::*kMember>
struct Member<kMember> {
  using Plan = P;
  static int get(const P& plan) { return static_cast<int>(plan.*kMember); }
  static void set(P& plan, int value) { plan.*kMember = static_cast<T>(value); }
};
}  // namespace detail

template <auto kMember>
constexpr auto number(std::string_view name, int minimum, int maximum) {
  using M = detail::Member<kMember>;
  return Field<typename M::Plan>{
      .name = name, .get = M::get, .set = M::set, .names = {}, .minimum = minimum, .maximum = maximum};
}

template <auto kMember>
constexpr auto choice(std::string_view name, std::span<const std::string_view> names, std::uint32_t known = ~0u) {
  using M = detail::Member<kMember>;
  return Field<typename M::Plan>{.name = name, .get = M::get, .set = M::set, .names = names, .known = known};
}

// A list is always said, and must be given.
template <typename P>
constexpr Field<P> list(std::string_view name, std::string (*write)(const P&), void (*read)(P&, std::string_view)) {
  return Field<P>{.name = name, .write = write, .read = read};
}

}  // namespace onchip
