// SPDX-License-Identifier: Apache-2.0
// The answers that every workload has. A case is a chip's answer about a workload: the plan and what it is predicted to
// take, or why there is none. What a workload provides for its question Q and its case C:
//
//   Q::chip, Q::granule             the chip file; of hidden units, where sizes are sought
//   side_of(chip, Q)                SideOf<C>: its case on a chip, and the largest size there
//   asked_of_chips(Q, side, granule)    what rankings of the chip's numbers ask (capacity.hpp)
//   fit(Q), predict(Q), rank(Q), reach(Q, TargetQuestion)    answers, whose is_yes() says yes or no
//   C::fits(), C::kHasSize          whether weights, or features, stay on the chip; whether sizes can be sought
//   plan_time(C), columns_of(C), to_json(C)
#pragma once

#include "model/answer/capacity.hpp"
#include "model/answer/chip_changes.hpp"
#include "model/answer/target.hpp"
#include "model/base/json.hpp"

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// ---- what would make it fit? ----------------------------------------------------------------------------------------

// One change that alone makes a network fit, which was tried; the next smaller one does not, but for ripples.
struct Remedy {
  std::string what;  // "hidden", "density", or a key of the chip
  double from = 0, to = 0;
  std::string option;  // "--hidden 5632", "--set 'shared_memory.per_sm=244 KiB'"
  std::string text;    // "5632 hidden units instead of 8192"
};

// ---- what if the chip were another? ---------------------------------------------------------------------------------

template <typename C>
struct SideOf : C {
  using Case = C;
  int largest_hidden = 0;  // that stays on the chip; 0 of networks without a size of their own
};

template <typename C>
struct WhatIfOf : ComparedOf<SideOf<C>> {
  std::optional<std::vector<Sensitivity>> sensitivity = {};  // of the base
  std::optional<std::vector<OneMore>> one_more = {};         // of the base

  bool is_yes() const { return plan_time(this->base).fits; }
};

// The answer with each change alone and all together. Ranking the chip's numbers takes the longest, and may be left
// out; they are ranked where the base has a time.
template <typename Q>
auto what_if(const Q& base, const std::vector<std::string>& changes = {}, bool ranks_numbers = true) {
  using Side = decltype(side_of(base.chip, base));
  WhatIfOf<typename Side::Case> answer{
      compare_chips<Side>(base.chip, changes, [&](const ChipFile& chip) { return side_of(chip, base); })};
  if (ranks_numbers && std::isfinite(plan_time(answer.base).us)) {
    answer.sensitivity = sensitivities(base.chip, asked_of_chips(base, answer.base, base.granule));
    answer.one_more = one_more(base.chip, asked_of_chips(base, answer.base, 1));
  }
  return answer;
}

// How much more the changes together do than the sum of what each does alone, of the base's; nothing where one of them
// has no answer.
struct Interaction {
  double hidden_percent = 0, step_percent = 0;
};
template <typename C>
std::optional<Interaction> interaction(const WhatIfOf<C>& answer) {
  if (answer.alone.empty() || !answer.changed) {
    return std::nullopt;
  }
  const auto has_numbers = [](const SideOf<C>& side) { return plan_time(side).fits && side.largest_hidden > 0; };
  const PlanTime base = plan_time(answer.base);
  Interaction more;
  bool all_have = has_numbers(answer.base);
  const auto add = [&](const SideOf<C>& side, double times) {
    all_have &= has_numbers(side);
    more.step_percent += times * 100 * (plan_time(side).us / base.us - 1);
    more.hidden_percent += times * 100 * (static_cast<double>(side.largest_hidden) / answer.base.largest_hidden - 1);
  };
  add(*answer.changed, 1);
  for (const ChangeOf<SideOf<C>>& one : answer.alone) {
    if (!one.side) {
      return std::nullopt;
    }
    add(*one.side, -1);
  }
  return all_have ? std::optional(more) : std::nullopt;
}

// ---- which plan? ----------------------------------------------------------------------------------------------------

// The best plan of every family, the answer first, then the others as they would follow it, then families without.
template <typename C>
struct RankedOf {
  std::string_view family;
  std::optional<C> answer;
  std::string why;          // it is the answer, or is not
  bool is_on_chip = false;  // what the family keeps, where it fits
};
template <typename C>
struct RankOf {
  std::string chip, title;  // title: "relu H=2304 B=4 30 % fp16 on H200"
  Json network;             // what was asked about
  std::vector<RankedOf<C>> ranking = {};
  bool has_fitting = false;  // a plan that stays on the chip

  bool is_yes() const { return has_fitting; }
};

// ---- what must the chip have at least? ------------------------------------------------------------------------------

template <typename C>
struct TargetOf : ReachedOf<C> {
  Target target;

  bool is_yes() const { return this->reaches(); }
};

}  // namespace onchip
