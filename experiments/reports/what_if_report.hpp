// SPDX-License-Identifier: Apache-2.0
// What a changed chip does to an answer, in the three forms of an answer.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/reports/shown.hpp"
#include "model/answer/json.hpp"

#include <optional>
#include <string>
#include <vector>

namespace onchip {

// A chip's answer as it is shown.
struct ShownSide : Shown {
  int largest_hidden = 0;
};
struct ShownWhatIf : ComparedOf<ShownSide> {
  std::string base_text;             // the base's answer, where nothing is changed
  std::vector<std::string> columns;  // of the sides' cells
  std::optional<Interaction> interaction = {};
  std::optional<std::vector<Sensitivity>> sensitivity = {};
  std::optional<std::vector<OneMore>> one_more = {};
};
Report what_if_report(const ShownWhatIf& answer, Json json);

template <typename C>
Report report_of(const WhatIfOf<C>& answer) {
  const auto side = [](const SideOf<C>& of) {
    return ShownSide{shown_whole(static_cast<const C&>(of)), of.largest_hidden};
  };
  const C& base = answer.base;
  return what_if_report({with_sides<ShownSide>(answer, side), to_text(base), csv_columns(base), interaction(answer),
                         answer.sensitivity, answer.one_more},
                        to_json(answer));
}

}  // namespace onchip
