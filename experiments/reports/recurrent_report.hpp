// SPDX-License-Identifier: Apache-2.0
// Answers about a step of a recurrent network, in the three forms of an answer.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/reports/shown.hpp"

#include <span>
#include <string>

namespace onchip {

// Who computes the network instead, in which time.
std::string instead_text(const PlannedNetwork& other);

// For people: "relu H=2304 B=4 30 % fp16 on H200", plan, times, terms and resources.
std::string to_text(const RecurrentCase& answer);
std::string resources_text(const Footprint& footprint);

Report report_of(const FitAnswer& answer);
Report report_of(const PredictAnswer& answer);
// Of a checkpoint: a row for each layer and direction, which are computed one after another.
Report report_of(std::span<const FitAnswer> answers);
Report report_of(std::span<const PredictAnswer> answers);
// A row of CSV for each part, and the total's.
Report report_of(const WholeNetworkAnswer& answer);

}  // namespace onchip
