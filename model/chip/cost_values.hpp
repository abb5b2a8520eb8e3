// SPDX-License-Identifier: Apache-2.0
// The values of the cost terms, which a chip carries.
#pragma once

#include "model/chip/cost_terms.hpp"

namespace onchip {

namespace detail {
constexpr bool are_in_order() {
  for (std::size_t i = 0; i < kCosts; ++i) {
    if (kCostTerms[i].cost != static_cast<Cost>(i)) {
      return false;
    }
  }
  return true;
}
}  // namespace detail
static_assert(detail::are_in_order(), "a row for each term, in the order of the enumeration");

// The values, which start as the table has them.
class CostValues {
 public:
  constexpr CostValues() {
    for (const CostTerm& term : kCostTerms) {
      values_[static_cast<std::size_t>(term.cost)] = term.value;
    }
  }
  constexpr double operator[](Cost cost) const { return values_[static_cast<std::size_t>(cost)]; }
  constexpr void set(Cost cost, double value) { values_[static_cast<std::size_t>(cost)] = value; }

 private:
  std::array<double, kCosts> values_{};
};

inline constexpr CostValues kCostDefaults;

}  // namespace onchip
