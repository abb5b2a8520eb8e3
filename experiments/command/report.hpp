// SPDX-License-Identifier: Apache-2.0
// A planned network in the three output forms, shared by the verbs that predict.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/measurement/configuration.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// What `binding` names: the resource that is used most, or the largest term of the step time.
enum class Binding { resource, term };

struct Case {
  std::string chip;
  Configuration configuration;  // what was asked: mask and seed are from here
  ChosenPlan planned;           // what was found
};

Json to_json(const Recurrent& network);
Json to_json(const Plan& plan);
Json to_json(const Case& answer, Binding binding);

// One CSV row per case.
std::vector<std::string> case_columns();
std::vector<std::string> case_cells(const Case& answer, Binding binding);

// Who computes the network instead, in which time: a line of text, and as JSON.
std::string instead_text(const PlannedNetwork& other);
Json instead_json(const PlannedNetwork& other);

// For people: "relu H=2304 B=4 30 % fp16 on H200", plan, times, terms and resources.
std::string to_text(const Case& answer);
std::string resources_text(const Footprint& footprint);

// "1.93 us (95 %: 1.80 to 2.10)"
std::string time_text(const Prediction& prediction);

}  // namespace onchip
