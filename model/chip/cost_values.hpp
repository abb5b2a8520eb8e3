// SPDX-License-Identifier: Apache-2.0
// The values of the cost terms, which a chip carries.
#pragma once

#include "model/chip/cost_terms.hpp"

namespace onchip {

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
