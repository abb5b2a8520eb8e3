// SPDX-License-Identifier: Apache-2.0
// The one JSON form of every answer.
#pragma once

#include "model/answer/target.hpp"
#include "model/answer/whole_network.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace onchip {

using Json = nlohmann::ordered_json;

inline constexpr int kAnswerSchema = 2;  // "schema" of an answer; another number where a field goes or means another

// What `binding` names: the resource that is used most, or the largest term of the step time.
enum class Binding { resource, term };
std::string_view binding_name(const Prediction& prediction, Binding binding);

Json to_json(const Recurrent& network);
Json to_json(const Plan& plan);
Json to_json(const Case& answer, Binding binding);
Json instead_json(const PlannedNetwork& other);

Json to_json(const FitAnswer& answer);
Json to_json(const PredictAnswer& answer);
Json to_json(const WholeNetworkAnswer& answer);  // as of one layer, with "sequence"
Json to_json(const RankAnswer& answer);
Json to_json(const WhatIfAnswer& answer);
Json to_json(const TargetAnswer& answer);
Json reached_json(Json target, const ReachedOf<Json>& answers);

Json versioned(const Json& answer);       // with the number of its form and the version of onchip before it
std::string json_text(const Json& json);  // as it is printed, with its end of line

}  // namespace onchip
