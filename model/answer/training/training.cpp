// SPDX-License-Identifier: Apache-2.0
#include "model/answer/training/training.hpp"

#include "model/base/error.hpp"
#include "model/base/units.hpp"

namespace onchip {
namespace {

Json times(double us, double low_us, double high_us) {
  return {{"us", rounded(us)}, {"interval_us", {rounded(low_us), rounded(high_us)}}};
}

Json to_json(const Packing& packing) {
  return {{"elements", packing.elements}};
}
Json to_json(const ProductSize& size) {
  return {{"rows", size.rows}, {"columns", size.columns}, {"depth", size.depth}};
}
Json to_json(const RecurrencePlan& plan) {
  return text(plan);
}
Json to_json(const SparseTrainingPlan& plan) {
  return text(plan);
}

}  // namespace

TrainingAnswer predict_training(const ChipFile& chip, const Training& training, Stash stash,
                                const std::optional<TrainingStep>& given) {
  check(training.network);
  if (given) {
    check(training, *given);
  }
  TrainingStep step = given ? *given : plan_training(chip.chip, training, stash);
  TrainingPrice priced = price(chip.chip, training, step);
  TrainingAnswer answer{
      chip.chip.name, training, std::move(step), std::move(priced), library_prices(chip.chip, training), {}, {}};
  if (answer.step == library_step()) {
    try {
      answer.own = price(chip.chip, training, own_step(chip.chip, training, stash));
    } catch (const InputError& lacks) {
      answer.lacks = lacks.what();
    }
  }
  return answer;
}

Json to_json(const TrainingAnswer& answer) {
  const TrainingPrice& price = answer.price;
  Json json{{"chip", answer.chip},
            {"network", to_json(answer.training.network)},
            {"layers", answer.training.stack.layers},
            {"bidirectional", answer.training.stack.bidirectional},
            {"input", answer.training.stack.columns(answer.training.network, 0)},
            {"stash", kStashNames[static_cast<std::size_t>(answer.step.stash)]}};
  json.update(times(price.us, price.low_us, price.high_us));
  json["step_us"] = rounded(price.us / answer.training.network.steps);
  json["stash_bytes"] = price.stash_bytes;
  json["workspace_bytes"] = price.workspace_bytes;
  json["phases"] = Json::array();
  for (std::size_t i = 0; i < answer.step.phases.size(); ++i) {
    const Phase& phase = answer.step.phases[i];
    Json one{{"name", name(phase.kind)},
             {"layer", phase.layer},
             {"direction", phase.reversed ? "backward" : "forward"},
             {"beside", phase.beside},
             {"of_sms", phase.of_sms}};
    one.update(times(price.phases[i].us, price.phases[i].low_us, price.phases[i].high_us));
    one["bytes"] = price.phases[i].bytes;
    const bool is_plan = !std::holds_alternative<Packing>(phase.how) && !std::holds_alternative<ProductSize>(phase.how);
    std::visit([&](const auto& how) { one[is_plan ? "plan" : "size"] = to_json(how); }, phase.how);
    json["phases"].push_back(std::move(one));
  }
  json["libraries"] = Json::array();
  for (const LibraryTraining& library : answer.libraries) {
    Json one{{"library", library.library}, {"computes", library.what}};
    one.update(times(library.us, library.low_us, library.high_us));
    json["libraries"].push_back(std::move(one));
  }
  if (answer.own) {
    json["own"] = times(answer.own->us, answer.own->low_us, answer.own->high_us);
  } else if (!answer.lacks.empty()) {
    json["own"] = {{"lacks", answer.lacks}};
  }
  json["text"] = to_string(answer.step);
  return json;
}

}  // namespace onchip
