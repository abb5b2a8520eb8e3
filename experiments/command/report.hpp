// SPDX-License-Identifier: Apache-2.0
// A planned network as text and as rows of CSV, shared by the verbs that predict; model/answer/json.hpp has its JSON.
#pragma once

#include "experiments/command/configuration_rows.hpp"
#include "experiments/command/output.hpp"
#include "model/answer/json.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// One CSV row per case.
std::vector<std::string> case_columns();
std::vector<std::string> case_cells(const Case& answer, Binding binding);

// Who computes the network instead, in which time.
std::string instead_text(const PlannedNetwork& other);

// For people: "relu H=2304 B=4 30 % fp16 on H200", plan, times, terms and resources.
std::string to_text(const Case& answer);
std::string resources_text(const Footprint& footprint);

// "1.93 us (95 %: 1.80 to 2.10)"
std::string time_text(const Prediction& prediction);

}  // namespace onchip
