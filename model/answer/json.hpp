// SPDX-License-Identifier: Apache-2.0
// The one JSON form of every answer.
#pragma once

#include "model/answer/target.hpp"
#include "model/answer/whole_network.hpp"
#include "model/base/json.hpp"
#include "model/plan/plan_text.hpp"

#include <string>
#include <string_view>

namespace onchip {

inline constexpr int kAnswerSchema = 2;  // "schema" of an answer; another number where a field goes or means another

// What `binding` names: the resource that is used most, or the largest term of the step time.
enum class Binding { resource, term };
std::string_view binding_name(const Prediction& prediction, Binding binding);

Json to_json(const Recurrent& network);
Json list_json(std::string_view text);  // of a list in a plan's text
// The fields of a family's plan by their names, and its text.
template <typename P>
Json plan_json(const P& plan) {
  Json json{{"family", P::kName}};
  for (const Field<P>& field : fields(plan)) {
    json[std::string(field.name)] = field.is_list()     ? list_json(field.write(plan))
                                    : field.is_number() ? Json(field.get(plan))
                                                        : Json(value_text(field, field.get(plan)));
  }
  json["text"] = plan_text(plan);
  return json;
}
Json to_json(const RecurrentPlan& plan);
Json resources_json(const Footprint& footprint);
Json to_json(const Case& answer, Binding binding);
Json instead_json(const PlannedNetwork& other);

Json to_json(const FitAnswer& answer);
Json to_json(const PredictAnswer& answer);
Json to_json(const WholeNetworkAnswer& answer);  // as of one layer, with "sequence"
Json to_json(const RankAnswer& answer);
Json to_json(const WhatIfAnswer& answer);
Json to_json(const TargetAnswer& answer);
// Answers of a chip and of its changes; `is_told`: whether a side's time differs from the base's by more than the model
// is off.
template <typename Answer, typename ToJson, typename IsTold>
Json compared_json(const ComparedOf<Answer>& answer, const ToJson& of, const IsTold& is_told) {
  Json json{{"base", of(answer.base)}};
  const auto changed_json = [&](const Answer& side) {
    Json changed = of(side);
    changed["difference_is_told"] = is_told(side);
    return changed;
  };
  if (answer.changed) {
    json["changed"] = changed_json(*answer.changed);
  }
  for (const ChangeOf<Answer>& one : answer.alone) {
    Json alone = one.side ? changed_json(*one.side) : Json{{"problem", one.problem}};
    alone["change"] = one.change;
    json["alone"].push_back(std::move(alone));
  }
  return json;
}
void add_numbers(Json& json, const std::optional<Interaction>& interaction,
                 const std::optional<std::vector<Sensitivity>>& sensitivity,
                 const std::optional<std::vector<OneMore>>& one_more);
Json reached_json(Json target, const ReachedOf<Json>& answers);

Json versioned(const Json& answer);       // with the number of its form and the version of onchip before it
std::string json_text(const Json& json);  // as it is printed, with its end of line

}  // namespace onchip
