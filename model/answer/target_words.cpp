// SPDX-License-Identifier: Apache-2.0
// Targets and prices as users write them.
#include "model/answer/target.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"
#include "model/chip/chip_keys.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace onchip {
namespace {

// "hidden=8192", "step_us<=2" or "ms<=5", beside what the target has already.
void add_to(Target& target, std::string_view text) {
  constexpr std::string_view kExpected = ": expected hidden=N or step_us<=T";
  const std::size_t begin = text.find_first_of("<>="), end = text.find_first_not_of("<>= ", begin);
  if (begin == std::string_view::npos || end == std::string_view::npos) {
    throw InputError("target: found " + in_quotes(text) + std::string(kExpected));
  }
  const auto trimmed = [](std::string_view part) { return part.substr(0, part.find_last_not_of(' ') + 1); };
  const std::string_view name = trimmed(text.substr(0, begin)), sign = trimmed(text.substr(begin, end - begin));
  const double number = parse_quantity(text.substr(end), Dimension::count);
  if (name == "hidden" && (sign == "=" || sign == ">=")) {
    if (!(number >= 1 && number <= kMaxHidden) || number != std::floor(number)) {
      throw InputError("target: found " + in_quotes(text) + ": expected a whole number from 1 to " +
                       std::to_string(kMaxHidden));
    }
    target.hidden = static_cast<int>(number);
  } else if ((name == "step_us" || name == "ms") && (sign == "=" || sign == "<=" || sign == "<")) {
    if (!(number > 0)) {
      throw InputError("target: found " + in_quotes(text) + ": expected a time above 0");
    }
    (name == "ms" ? target.ms : target.step_us) = number;
  } else {
    constexpr std::array<std::string_view, 3> kNames{"hidden", "step_us", "ms"};
    const std::string hint = did_you_mean(name, kNames);
    const bool is_name = std::ranges::find(kNames, name) != kNames.end();
    throw InputError("target: found " + in_quotes(text) + (is_name || hint.empty() ? std::string(kExpected) : hint));
  }
}

// "shared_memory.per_sm=0.5/KiB"; "sm.count=20" is for one.
UnitPrice parse_price(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const ChipKey* key = find_key(name);
  if (equals == std::string_view::npos || key == nullptr) {
    const std::string hint = did_you_mean(name, key_names());
    throw InputError("price: found " + in_quotes(text) + (hint.empty() ? ": expected KEY=NUMBER/UNIT" : hint));
  }
  const std::size_t slash = text.find('/', equals);
  const std::string_view unit = slash == std::string_view::npos ? base_unit(key->dimension) : text.substr(slash + 1);
  try {
    const double number = parse_quantity(text.substr(equals + 1, slash - equals - 1), Dimension::count);
    if (!(number >= 0)) {
      throw InputError("expected a price of 0 or more");
    }
    return {key, number / unit_factor(key->dimension, unit)};
  } catch (const InputError& error) {
    throw InputError("price: found " + in_quotes(text) + ": " + error.what());
  }
}

}  // namespace

TargetQuestion target_question(std::span<const std::string> targets, std::span<const std::string> vary,
                               std::span<const std::string> prices) {
  TargetQuestion question{{}, {vary.begin(), vary.end()}, {}};
  for (const std::string& target : targets) {
    add_to(question.target, target);
  }
  for (const std::string& price : prices) {
    question.prices.push_back(parse_price(price));
  }
  return question;
}

}  // namespace onchip
