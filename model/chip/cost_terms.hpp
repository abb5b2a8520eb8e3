// SPDX-License-Identifier: Apache-2.0
// The cost terms of cost_terms.inc as an enumeration and a table. A chip carries the values (Chip::cost), so that a
// what-if or an ablation changes them as it changes the chip's numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace onchip {

enum class Cost : std::uint8_t {
#define COST_TERM(name, ...) name,
#include "model/chip/cost_terms.inc"
  end
};
inline constexpr std::size_t kCosts = static_cast<std::size_t>(Cost::end);

struct CostTerm {
  Cost cost;
  std::string_view name;  // "overflow_parting"
  double value;
  double neutral;  // with which the term has no effect: `validate --without`
  std::string_view unit;
  std::string_view scales;   // what carries it to another chip
  std::string_view meaning;  // one sentence
  std::string_view fitted_to;
  int points;  // of it
};

inline constexpr std::array<CostTerm, kCosts> kCostTerms{{
#define COST_TERM(name, ...) {Cost::name, #name, __VA_ARGS__},
#include "model/chip/cost_terms.inc"
}};

constexpr const CostTerm& info(Cost cost) {
  return kCostTerms[static_cast<std::size_t>(cost)];
}

// The values, which start as the table has them.
class CostValues {
 public:
  constexpr CostValues() {
    for (const CostTerm& term : kCostTerms) {
      set(term.cost, term.value);
    }
  }
  constexpr double operator[](Cost cost) const { return values_[static_cast<std::size_t>(cost)]; }
  constexpr void set(Cost cost, double value) { values_[static_cast<std::size_t>(cost)] = value; }

 private:
  std::array<double, kCosts> values_{};
};

inline constexpr CostValues kCostDefaults;

// The part of the table that a term stands in, as the equations page has them.
constexpr std::string_view group_of(Cost cost) {
  std::string_view group;
  bool is_behind = false;  // the term
#define COST_GROUP(name) group = is_behind ? group : name;
#define COST_TERM(name, ...) is_behind = is_behind || cost == Cost::name;
#include "model/chip/cost_terms.inc"
  return group;
}

// Files by whose steps it was chosen which terms there are; nothing was fitted to them.
inline constexpr std::array<std::string_view, 2> kTermsChosenBy{"h100_sxm/drawn.csv", "h100_sxm/drawn_third.csv"};

// Whether a measured file, ".../h200/validation.csv", had a say in the terms: their values, or which there are.
constexpr bool is_in_sample(std::string_view file) {
  const auto is = [file](std::string_view name) {
    return file.ends_with(name) && (file.size() == name.size() || file[file.size() - name.size() - 1] == '/');
  };
  for (const CostTerm& term : kCostTerms) {
    if (is(term.fitted_to)) {
      return true;
    }
  }
  for (const std::string_view chosen_by : kTermsChosenBy) {
    if (is(chosen_by)) {
      return true;
    }
  }
  return false;
}

}  // namespace onchip
