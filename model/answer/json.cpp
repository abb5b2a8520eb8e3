// SPDX-License-Identifier: Apache-2.0
#include "model/answer/json.hpp"

#include "model/base/units.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {
namespace {

// The time of what does not fit is nobody's: null.
Json time_json(const Prediction& prediction, double us) {
  return prediction.footprint.fits && std::isfinite(us) ? Json(rounded(us)) : Json(nullptr);
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

Json to_json(const WhatIfSide& side) {
  Json json = to_json(side.answer, Binding::term);
  json["largest_hidden"] = side.largest_hidden;
  return json;
}

}  // namespace

std::string_view binding_name(const Prediction& prediction, Binding binding) {
  // What does not fit has no step time to be bound.
  return binding == Binding::resource || !prediction.footprint.fits ? info(prediction.footprint.binding).name
                                                                    : prediction.binding();
}

Json to_json(const Recurrent& network) {
  return {{"cell", info(network.cell).name}, {"hidden", network.hidden},   {"batch", network.batch},
          {"steps", network.steps},          {"density", network.density}, {"precision", info(network.precision).name}};
}

// The elements of a list in a plan's text, "3/2" or "3:4x1,120:2x1": numbers where they are, else text. Of a plan
// within a plan, "[warps=8 ahead=16]", its fields by name.
Json list_json(std::string_view text) {
  const auto value = [](std::string_view element) {
    const Json number = Json::parse(element, nullptr, /*allow_exceptions=*/false);
    return number.is_number_integer() ? number : Json(element);
  };
  if (text.starts_with('[') && text.ends_with(']')) {
    Json json = Json::object();
    for (const std::string_view word : split_text(text.substr(1, text.size() - 2), ' ')) {
      const std::size_t equals = std::min(word.find('='), word.size() - 1);
      json[std::string(word.substr(0, equals))] = value(word.substr(equals + 1));
    }
    return json;
  }
  Json json = Json::array();
  for (const std::string_view element : split_text(text, text.find(',') == std::string_view::npos ? '/' : ',')) {
    json.push_back(value(element));
  }
  return json;
}

Json to_json(const RecurrentPlan& plan) {
  return std::visit([](const auto& of_family) { return plan_json(of_family); }, plan);
}

Json resources_json(const Footprint& footprint) {
  Json json = Json::array();
  for (std::size_t i = 0; i < kResources.size(); ++i) {
    const ResourceUse& use = footprint.resources[i];
    json.push_back({{"name", kResources[i].name},
                    {"used", rounded(use.used, 9)},
                    {"available", rounded(use.available, 9)},
                    {"unit", kResources[i].unit}});
  }
  return json;
}

Json to_json(const Case& answer, Binding binding) {
  const Prediction& prediction = answer.planned.prediction;
  Json json{
      {"chip", answer.chip}, {"network", to_json(answer.planned.network)}, {"plan", to_json(answer.planned.plan)}};
  json["network"]["mask"] = mask_name(answer.configuration);
  json["network"]["seed"] = answer.configuration.seed;
  if (is_on_chip(answer.planned.plan)) {  // where weights may lie
    json["tier"] = name(tier_of(answer.planned.plan));
  }
  if (answer.planned.refused) {
    json["refused_plan"] = to_string(*answer.planned.refused);
  }
  json["fits"] = prediction.footprint.fits;
  json["registers_in_doubt"] = prediction.footprint.registers_in_doubt;
  json["binding"] = binding_name(prediction, binding);
  json["resources"] = resources_json(prediction.footprint);
  json["step_us"] = time_json(prediction, prediction.step_us);
  json["interval_us"] = {time_json(prediction, prediction.low_us), time_json(prediction, prediction.high_us)};
  json["floor_us"] = prediction.floor_us > 0 ? time_json(prediction, prediction.floor_us) : Json(nullptr);
  json["terms"] = Json::array();
  for (const Term& term : prediction.terms) {
    json["terms"].push_back({{"name", term.name}, {"us", time_json(prediction, term.us)}});
  }
  return json;
}

Json instead_json(const PlannedNetwork& other) {
  return {{"plan", to_json(other.plan)},
          {"step_us", rounded(other.prediction.step_us)},
          {"interval_us", {rounded(other.prediction.low_us), rounded(other.prediction.high_us)}}};
}

Json versioned(const Json& answer) {
  Json json{{"schema", kAnswerSchema}, {"version", ONCHIP_VERSION}};
  json.update(answer);
  return json;
}

Json to_json(const FitAnswer& answer) {
  Json json = to_json(answer.answer, Binding::resource);
  if (answer.next && !answer.next->planned.prediction.footprint.fits) {
    json["next"] = to_json(*answer.next, Binding::resource);
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
  Json json = to_json(answer.answer, Binding::term);
  if (answer.instead) {
    json["instead"] = instead_json(*answer.instead);
  }
  return versioned(json);
}

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

Json to_json(const RankAnswer& answer) {
  Json json{{"chip", answer.chip}, {"network", to_json(answer.configuration.network)}, {"plans", Json::array()}};
  for (const RankedPlan& ranked : answer.ranking) {
    Json plan{{"family", ranked.family}, {"why", ranked.why}};
    if (ranked.planned) {
      plan.update(to_json(Case{answer.chip, answer.configuration, {*ranked.planned}}, Binding::term));
    }
    json["plans"].push_back(std::move(plan));
  }
  json["fits"] = answer.fits;
  return versioned(json);
}

void add_numbers(Json& json, const std::optional<Interaction>& interaction,
                 const std::optional<std::vector<Sensitivity>>& sensitivity,
                 const std::optional<std::vector<OneMore>>& one_more) {
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
}

Json to_json(const WhatIfAnswer& answer) {
  Json json = compared_json(
      answer, [](const WhatIfSide& side) { return to_json(side); },
      [&](const WhatIfSide& side) { return is_told(answer.base.answer.planned, side.answer.planned); });
  add_numbers(json, interaction(answer), answer.sensitivity, answer.one_more);
  return versioned(json);
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

Json to_json(const TargetAnswer& answer) {
  Json target{{"fits", true}, {"hidden", answer.base.planned.network.hidden}, {"step_us", nullptr}};
  if (answer.target.step_us) {
    target["step_us"] = *answer.target.step_us;
  }
  return reached_json(std::move(target),
                      with_answers<Json>(answer, [](const Case& one) { return to_json(one, Binding::term); }));
}

std::string json_text(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + '\n';
}

}  // namespace onchip
