// SPDX-License-Identifier: Apache-2.0
#include "model/answer/json.hpp"

#include "model/base/units.hpp"

namespace onchip {

Json versioned(const Json& answer) {
  Json json{{"schema", kAnswerSchema}, {"version", ONCHIP_VERSION}};
  json.update(answer);
  return json;
}

std::string json_text(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + '\n';
}

Json to_json(const std::vector<Remedy>& remedies) {
  Json json = Json::array();
  for (const Remedy& remedy : remedies) {
    json.push_back({{"change", remedy.what},
                    {"from", rounded(remedy.from, 9)},
                    {"to", rounded(remedy.to, 9)},
                    {"option", remedy.option}});
  }
  return json;
}

namespace {

Json instead_json(const PlannedNetwork& other) {
  return {{"plan", to_json(other.plan)},
          {"step_us", rounded(other.prediction.step_us)},
          {"interval_us", {rounded(other.prediction.low_us), rounded(other.prediction.high_us)}}};
}

}  // namespace

Json to_json(const FitAnswer& answer) {
  Json json = recurrent_columns(Binding::resource).json(answer.answer);
  if (answer.next && !answer.next->planned.prediction.footprint.fits) {
    json["next"] = recurrent_columns(Binding::resource).json(*answer.next);
    json["next"]["to_fit"] = to_json(answer.to_fit);
  } else if (!answer.next) {
    json["to_fit"] = to_json(answer.to_fit);
  }
  if (answer.instead) {
    json["instead"] = instead_json(*answer.instead);
  }
  return versioned(json);
}

Json to_json(const PredictAnswer& answer) {
  Json json = to_json(answer.answer);
  if (answer.instead) {
    json["instead"] = instead_json(*answer.instead);
  }
  return versioned(json);
}

namespace {

Json stack_json(const Found<PlannedStack>& planned) {
  if (!planned) {
    return {{"plan_text", nullptr}, {"why", planned.why()}};
  }
  const auto& [plan, time] = *planned;
  return {{"plan_text", to_string(TrainingPlan(plan))},
          {"us", rounded(time.us)},
          {"interval_us", {rounded(time.low_us), rounded(time.high_us)}}};
}

}  // namespace

Json to_json(const WholeNetworkAnswer& answer) {
  const auto times = [](const SequencePart& part) -> Json {
    return {{"us", rounded(part.us)}, {"interval_us", {rounded(part.low_us), rounded(part.high_us)}}};
  };
  Json sequence{{"layers", answer.stack.layers},
                {"bidirectional", answer.stack.bidirectional},
                {"input", answer.stack.columns(answer.of_layer.answer.planned.network, 0)},
                {"us", nullptr},
                {"interval_us", nullptr}};
  if (!answer.parts.empty()) {
    sequence.update(times(answer.total));
  }
  sequence["stack"] = stack_json(answer.dense);
  sequence["parts"] = Json::array();
  for (const SequencePart& part : answer.parts) {
    Json json{{"layer", part.layer}, {"direction", part.backward ? "backward" : "forward"}, {"name", part.name}};
    json.update(times(part));
    sequence["parts"].push_back(std::move(json));
  }
  Json json = to_json(answer.of_layer);
  json["sequence"] = std::move(sequence);
  return json;
}

Json numbers_json(const std::optional<Interaction>& interaction,
                  const std::optional<std::vector<Sensitivity>>& sensitivity,
                  const std::optional<std::vector<OneMore>>& one_more) {
  Json json = Json::object();
  if (interaction) {
    json["interaction"] = {{"d_hidden_percent", rounded(interaction->hidden_percent)},
                           {"d_step_percent", rounded(interaction->step_percent)}};
  }
  if (sensitivity) {
    json["sensitivity"] = Json::array();
    for (const Sensitivity& s : *sensitivity) {
      json["sensitivity"].push_back({{"key", s.key},
                                     {"d_hidden_percent", rounded(s.hidden_percent)},
                                     {"d_step_percent", rounded(s.step_percent)},
                                     {"difference_is_told", s.is_told}});
    }
  }
  if (one_more) {
    json["one_more"] = Json::array();
    for (const OneMore& more : *one_more) {
      json["one_more"].push_back({{"key", more.key},
                                  {"amount", more.amount},
                                  {"d_hidden", more.hidden},
                                  {"d_step_us", rounded(more.step_us)},
                                  {"difference_is_told", more.is_told}});
    }
  }
  return json;
}

Json reached_json(Json target, const ReachedOf<Json>& answer) {
  const auto varied_json = [&](const VariedOf<Json>& varied) {
    Json json = varied.answer;
    json["values"] = Json::object();
    for (std::size_t i = 0; i < answer.vary.size(); ++i) {
      json["values"][std::string(answer.vary[i].key->key)] = rounded(varied.values[i], 12);
    }
    json["option"] = varied.option;
    if (varied.cost) {
      json["cost"] = rounded(*varied.cost, 9);
    }
    return json;
  };
  Json json{{"target", std::move(target)}, {"reached", answer.reaches()}, {"base", answer.base}};
  json["base"]["reached"] = answer.base_reaches;
  json["alone"] = Json::array();
  for (std::size_t i = 0; i < answer.alone.size(); ++i) {
    const LeastOf<Json>& least = answer.alone[i];
    Json alone{
        {"key", answer.vary[i].key->key}, {"from", rounded(answer.vary[i].from, 12)}, {"reached", least.reaches}};
    alone.update(varied_json(least.at));
    alone["fails_again"] = Json::array();
    for (const auto& [first, last] : least.fails_again) {
      alone["fails_again"].push_back({first, last});
    }
    json["alone"].push_back(std::move(alone));
  }
  if (answer.vary.size() == 2) {
    json["trade_off"] = Json::array();
    for (const VariedOf<Json>& varied : answer.trade_off) {
      json["trade_off"].push_back(varied_json(varied));
    }
  }
  if (answer.cheapest) {
    json["cheapest"] = varied_json(*answer.cheapest);
  }
  return versioned(json);
}

}  // namespace onchip
