// SPDX-License-Identifier: Apache-2.0
// What must a chip have at least, so that a network fits or a step is quick enough? From a target to the least of each
// number alone, and of two numbers to what more of one saves of the other.
#pragma once

#include "model/answer/answer.hpp"

#include <span>
#include <string_view>
#include <utility>

namespace onchip {

struct Target {
  int hidden = 0;                 // a network of so many units fits
  std::optional<double> step_us;  // a step takes no longer
};
// What a user pays for more of a number, for a base unit.
struct UnitPrice {
  const ChipKey* key = nullptr;
  double per_unit = 0;
};

struct TargetQuestion {
  Question base;
  Target target;                  // nothing: that the network fits
  std::vector<std::string> vary;  // keys; none: those of fit's remedies
  std::vector<UnitPrice> prices;
};
// From words: "hidden=8192", "step_us<=2"; keys; "shared_memory.per_sm=0.5/KiB". Throws InputError.
TargetQuestion target_question(const Question& base, std::span<const std::string> targets,
                               std::span<const std::string> vary, std::span<const std::string> prices);

// Varied numbers, and the answer with them.
struct Varied {
  std::vector<double> values;  // as TargetAnswer::vary
  std::string option;          // "--set 'shared_memory.per_sm=244 KiB'"
  Case answer;
  std::optional<double> cost;  // of what is more than the chip has, by the user's prices; less than 0 where it is less
};

// Of one number alone, the others as they are.
struct LeastValue {
  bool reaches = false;
  Varied at;  // the least that reaches the target, or the nearest miss
  std::vector<std::pair<double, double>>
      fails_again;  // better values that do not reach it: the first and last in a row
};

struct VariedKey {
  const ChipKey* key = nullptr;
  double from = 0;   // what the chip has
  std::string unit;  // of its file
};

struct TargetAnswer {
  Target target;
  Case base;
  bool base_reaches = false;
  std::vector<VariedKey> vary = {};
  std::vector<LeastValue> alone = {};   // of each, in their order
  std::vector<Varied> trade_off = {};   // of two: the least of the second for a value of the first
  std::optional<Varied> cheapest = {};  // of all, where there are prices

  bool reaches() const;
};
TargetAnswer reach(const TargetQuestion& question);

}  // namespace onchip
