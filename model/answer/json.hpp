// SPDX-License-Identifier: Apache-2.0
// The one JSON form of every answer.
#pragma once

#include "model/answer/case_columns.hpp"
#include "model/answer/forms.hpp"
#include "model/answer/whole_network.hpp"

#include <string>
#include <utility>

namespace onchip {

inline constexpr int kAnswerSchema = 3;  // "schema" of an answer; another number where a field goes or means another

Json versioned(const Json& answer);       // with the number of its form and the version of onchip before it
std::string json_text(const Json& json);  // as it is printed, with its end of line

Json to_json(const std::vector<Remedy>& remedies);

// ---- of a recurrent network -----------------------------------------------------------------------------------------

inline Json to_json(const RecurrentCase& answer) {
  return columns_of(answer).json(answer);
}
Json to_json(const FitAnswer& answer);
Json to_json(const PredictAnswer& answer);
Json to_json(const WholeNetworkAnswer& answer);  // as of one layer, with "sequence"

// ---- of every workload ----------------------------------------------------------------------------------------------

Json numbers_json(const std::optional<Interaction>& interaction,
                  const std::optional<std::vector<Sensitivity>>& sensitivity,
                  const std::optional<std::vector<OneMore>>& one_more);
Json reached_json(Json target, const ReachedOf<Json>& answers);

template <typename C>
Json to_json(const WhatIfOf<C>& answer) {
  const auto side_json = [](const SideOf<C>& side) {
    Json json = to_json(static_cast<const C&>(side));
    if (C::kHasSize) {
      json["largest_hidden"] = side.largest_hidden;
    }
    return json;
  };
  const auto changed_json = [&](const SideOf<C>& side) {
    Json json = side_json(side);
    json["difference_is_told"] = is_told(plan_time(answer.base), plan_time(side));
    return json;
  };
  Json json{{"base", side_json(answer.base)}, {"changes", answer.changes}};
  if (answer.changed) {
    json["changed"] = changed_json(*answer.changed);
  }
  for (const ChangeOf<SideOf<C>>& one : answer.alone) {
    Json alone = one.side ? changed_json(*one.side) : Json{{"problem", one.problem}};
    alone["change"] = one.change;
    json["alone"].push_back(std::move(alone));
  }
  json.update(numbers_json(interaction(answer), answer.sensitivity, answer.one_more));
  return versioned(json);
}

template <typename C>
Json to_json(const RankOf<C>& answer) {
  Json json{{"chip", answer.chip}, {"network", answer.network}, {"plans", Json::array()}};
  for (const RankedOf<C>& ranked : answer.ranking) {
    Json plan{{"family", ranked.family}, {"why", ranked.why}};
    if (ranked.answer) {
      plan.update(to_json(*ranked.answer));
    }
    json["plans"].push_back(std::move(plan));
  }
  json["fits"] = answer.is_yes();
  return versioned(json);
}

// Of a target that is a size or the time of a step.
template <typename C>
Json target_json(const Target& target, const C& base) {
  return {{"fits", true},
          {"hidden", network_of(base).hidden},
          {"step_us", target.step_us ? Json(*target.step_us) : Json()}};
}
template <typename C>
Json to_json(const TargetOf<C>& answer) {
  return reached_json(target_json(answer.target, answer.base),
                      with_answers<Json>(answer, [](const C& one) { return to_json(one); }));
}

}  // namespace onchip
