// SPDX-License-Identifier: Apache-2.0
// Answers about training as JSON.
#include "model/answer/training/training.hpp"
#include "model/base/units.hpp"

#include <type_traits>
#include <variant>

namespace onchip {
namespace {

Json times(const PhasePrice& price) {
  return {{"us", rounded(price.us)}, {"interval_us", {rounded(price.low_us), rounded(price.high_us)}}};
}

Json phases_json(const TrainingCase& answer) {
  Json json = Json::array();
  const ResourceUse& sms =
      answer.planned->prediction.footprint.resources[static_cast<std::size_t>(Resource::sms)];  // 0 of a library's
  const std::vector<Phase> phases = phases_of(answer.training, answer.planned->plan);
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Phase& phase = phases[i];
    const PhasePrice& price = answer.planned->prediction.phases[i];
    Json one{{"name", name(phase.kind)},
             {"layer", phase.layer},
             {"direction", phase.reversed ? "backward" : "forward"},
             {"beside", phase.beside},
             {"of_sms", phase.share > 1 ? static_cast<int>(sms.available) / phase.share : 0}};
    one.update(times(price));
    one["bytes"] = price.bytes;
    std::visit(
        [&]<typename How>(const How& how) {
          if constexpr (std::is_same_v<How, Packing>) {
            one["size"] = {{"elements", how.elements}};
          } else if constexpr (std::is_same_v<How, ProductSize>) {
            one["size"] = {{"rows", how.rows}, {"columns", how.columns}, {"depth", how.depth}};
          } else {
            one["plan"] = how_text(phase);
          }
        },
        phase.how);
    json.push_back(std::move(one));
  }
  return json;
}

}  // namespace

Json to_json(const TrainingCase& answer) {
  const Stack& stack = answer.training.stack;
  Json json{{"chip", answer.chip},
            {"network", to_json(answer.training.network)},
            {"layers", stack.layers},
            {"bidirectional", stack.bidirectional},
            {"input", stack.columns(answer.training.network, 0)},
            {"fits", answer.fits()}};
  if (!answer.planned) {
    json["why"] = answer.planned.why();
    return json;
  }
  const auto& [plan, prediction] = *answer.planned;
  json["stash"] = kStashNames[static_cast<std::size_t>(stash_of(plan))];
  json.update(times(prediction.iteration));
  json["step_us"] = rounded(prediction.step_us);
  json["binding"] = prediction.binding();
  json["resources"] = resources_json(prediction.footprint);
  json["stash_bytes"] = prediction.stash_bytes;
  json["workspace_bytes"] = prediction.workspace_bytes;
  json["plan"] = std::visit([](const auto& of_family) { return plan_json(of_family); }, plan);
  json["phases"] = phases_json(answer);
  json["text"] = to_string(plan);
  return json;
}

Json to_json(const TrainingAnswer& answer) {
  Json json = to_json(static_cast<const TrainingCase&>(answer));
  json["libraries"] = Json::array();
  for (const RankedTraining& one : answer.ranking) {
    if (one.is_library()) {
      Json library{{"library", one.library()}, {"computes", one.computes()}};
      library.update(times(one.iteration));
      json["libraries"].push_back(std::move(library));
    } else if (!is_on_chip(answer.planned->plan)) {
      json["own"] = one.planned ? times(one.iteration) : Json{{"lacks", one.why}};
    }
  }
  return json;
}

Json to_json(const TrainingFit& answer) {
  Json json = to_json(answer.answer);
  json["limits"] = Json::array();
  for (const TrainingLimit& limit : answer.limits) {
    json["limits"].push_back({{"what", limit.what}, {"largest", limit.largest}, {"next", limit.why}});
  }
  if (answer.to_fit) {
    json["to_fit"] =
        reached_json({{"fits", true}},
                     with_answers<Json>(*answer.to_fit, [](const TrainingCase& one) { return to_json(one); }))["alone"];
  }
  return versioned(json);
}

Json to_json(const TrainingWhatIf& answer) {
  Json json = compared_json(
      answer,
      [](const TrainingSide& side) {
        Json of_side = to_json(static_cast<const TrainingCase&>(side));
        of_side["largest_hidden"] = side.largest_hidden;
        return of_side;
      },
      [&](const TrainingSide& side) { return is_told(plan_time(answer.base), plan_time(side)); });
  add_numbers(json, interaction(answer), answer.sensitivity, answer.one_more);
  return versioned(json);
}

Json to_json(const TrainingTarget& answer) {
  Json target{{"fits", true}, {"hidden", answer.base.training.network.hidden}, {"step_us", nullptr}};
  if (answer.target.step_us) {
    target["step_us"] = *answer.target.step_us;
  }
  return reached_json(std::move(target),
                      with_answers<Json>(answer, [](const TrainingCase& one) { return to_json(one); }));
}

}  // namespace onchip
