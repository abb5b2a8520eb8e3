// SPDX-License-Identifier: Apache-2.0
// How long one time step of a plan takes, in named terms that sum to the total, and how sure that is. The families
// price their plans: sparse/price.hpp, dense/price.hpp, library/price.hpp.
#pragma once

#include "model/chip/chip.hpp"
#include "model/plan/footprint.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace onchip {

struct Term {
  std::string_view name;  // static
  double us = 0;          // of a step
};

// The terms of a step, in the family's order; without allocation.
class Terms {
 public:
  static constexpr std::size_t kMost = 8;

  constexpr void add(std::string_view name, double us) {  // throws std::out_of_range beyond kMost
    terms_.at(size_) = {name, us};
    ++size_;
  }
  constexpr double operator[](std::string_view name) const {  // 0 for a term that the family does not have
    for (const Term& term : *this) {
      if (term.name == name) {
        return term.us;
      }
    }
    return 0;
  }
  constexpr const Term* begin() const { return terms_.data(); }
  constexpr const Term* end() const { return terms_.data() + size_; }
  constexpr std::size_t size() const { return size_; }
  constexpr double total() const {
    double sum = 0;
    for (const Term& term : *this) {
      sum += term.us;
    }
    return sum;
  }
  constexpr std::string_view largest() const {  // "" where there is none
    const Term* most = begin();
    for (const Term& term : *this) {
      most = term.us > most->us ? &term : most;
    }
    return size_ > 0 ? most->name : "";
  }

  // Both have the same terms; nothing is none of them.
  friend constexpr Terms operator+(Terms a, const Terms& b) {
    for (std::size_t i = 0; i < a.size_; ++i) {
      a.terms_[i].us += b.terms_[i].us;
    }
    return a.size_ == 0 ? b : a;
  }
  friend constexpr Terms operator*(Terms terms, double factor) {
    for (Term& term : terms.terms_) {
      term.us *= factor;
    }
    return terms;
  }

 private:
  std::array<Term, kMost> terms_{};
  std::size_t size_ = 0;
};

// What a family says of a step.
struct Price {
  Terms terms;
  double below_us = 0, above_us = 0;  // how far the 95 % interval reaches to either side of the sum
  double floor_us = 0;                // below every step, by proof; 0 where there is none
};

struct Prediction {
  Footprint footprint;
  Terms terms;
  double step_us = 0;  // their sum
  double low_us = 0, high_us = 0;
  double floor_us = 0;

  std::string_view binding() const { return terms.largest(); }  // the time's counterpart to Footprint::binding
};

inline Prediction predicted(const Footprint& footprint, const Price& price) {
  const double step_us = price.terms.total();
  const double low_us = std::max(price.floor_us, step_us - price.below_us);
  return {footprint, price.terms, step_us, low_us, step_us + price.above_us, price.floor_us};
}

// Half of the 95 % interval of a step: of its exchange, how far the exchange alone scatters around the formula, twice,
// because in a step the SMs do not all come at once; of the rest, what overlaps. Twice is what holds 95 % of 343 steps
// measured on an H200 (experiments/data/h200/validation.csv) in the narrowest intervals.
inline double half_interval_us(const Chip& chip, double exchange_us, double step_us) {
  return std::hypot(chip.cost[Cost::exchange_scatter_in_step] * exchange_us * chip.exchange_scatter,
                    (step_us - exchange_us) * chip.gather_scatter);
}

}  // namespace onchip
