// SPDX-License-Identifier: Apache-2.0
// What a changed chip does to an answer, in the three forms of an answer.
#pragma once

#include "experiments/command/output.hpp"
#include "model/answer/answer.hpp"
#include "model/answer/json.hpp"

#include <optional>
#include <string>
#include <vector>

namespace onchip {

// A chip's answer as it is shown.
struct ComparedSide {
  int hidden = 0;
  Prediction prediction = {};
  std::string step = {};  // its time in words
  int largest_hidden = 0;
  PlanTime time = {};
};
struct ComparedSides : ComparedOf<ComparedSide> {
  std::string title, base_text;  // base_text: the base's answer, where nothing is changed
  std::optional<Interaction> interaction = {};
  std::optional<std::vector<Sensitivity>> sensitivity = {};
  std::optional<std::vector<OneMore>> one_more = {};
};
Report report_of(const ComparedSides& answer, Json json);
Report report_of(const WhatIfAnswer& answer);

}  // namespace onchip
