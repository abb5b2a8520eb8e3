// SPDX-License-Identifier: Apache-2.0
// Answers about training as JSON.
#include "model/answer/training/training.hpp"
#include "model/base/units.hpp"

#include <functional>
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

Json otherwise_json(const PlannedTraining& planned) {
  Json json{{"way", way_text(std::get<DenseTrainingPlan>(planned.plan))},
            {"plan_text", to_string(planned.plan)},
            {"step_us", rounded(planned.prediction.step_us)}};
  json.update(times(planned.prediction.iteration));
  return json;
}

Columns<TrainingCase> make_columns() {
  using Row = TrainingCase;
  Columns<Row> columns;
  const auto of_stack = [](auto get) { return [get](const Row& row) { return std::invoke(get, row.training.stack); }; };
  const auto if_planned = [](auto get) {
    return [get](const Row& row) { return row.planned ? to_value(std::invoke(get, *row.planned)) : ColumnValue(); };
  };
  const auto predicted = [&](auto get) {
    return if_planned([get](const PlannedTraining& planned) { return std::invoke(get, planned.prediction); });
  };
  const auto iteration = [&](double PhasePrice::*us) {
    return predicted([us](const TrainingPrediction& of) { return of.iteration.*us; });
  };
  columns.add("chip", "", "its name", &Row::chip);
  columns.add_all(network_columns(), [](const Row& row) -> const Recurrent& { return row.training.network; });
  columns.add("layers", "", "of the network", of_stack(&Stack::layers));
  columns.add("directions", "", "of a layer", of_stack(&Stack::directions), "", In::csv);
  columns.add_to_json("bidirectional", "whether a layer has two directions", of_stack(&Stack::bidirectional));
  columns.add("input", "", "numbers of a sample and step that the first layer takes",
              [](const Row& row) { return row.training.stack.columns(row.training.network, 0); });
  columns.add("fits", "", "whether the weights stay on the chip in both passes, or those of all layers at once",
              &Row::fits);
  columns.add_to_json("stash", "what the forward pass keeps",
                      if_planned([](const PlannedTraining& of) { return stash_name(of.plan); }));
  columns.add("step_us", "us", "an iteration / steps", predicted(&TrainingPrediction::step_us));
  columns.add("low_us", "us", "its 95 % interval", predicted(&TrainingPrediction::low_us), "", In::csv);
  columns.add("high_us", "us", "its 95 % interval", predicted(&TrainingPrediction::high_us), "", In::csv);
  columns.add("us", "us", "an iteration: forward and all gradients; of a stack without gradients, forward",
              iteration(&PhasePrice::us));
  columns.add_to_json("low", "its 95 % interval", iteration(&PhasePrice::low_us), "interval_us/0");
  columns.add_to_json("high", "its 95 % interval", iteration(&PhasePrice::high_us), "interval_us/1");
  columns.add_to_json("binding", "the largest kind of phases",
                      predicted([](const TrainingPrediction& of) { return of.binding(); }));
  const auto memory = [&](std::int64_t TrainingMemory::*bytes) {
    return predicted([bytes](const TrainingPrediction& of) { return of.memory.*bytes; });
  };
  columns.add("stash_bytes", "bytes", "kept from the forward to the backward pass, the output included",
              memory(&TrainingMemory::stash_bytes));
  columns.add("workspace_bytes", "bytes", "of device memory that a half of a layer needs while it runs",
              memory(&TrainingMemory::workspace_bytes));
  columns.add("peak_bytes", "bytes", "the most of device memory at once, beside the input and the weights",
              memory(&TrainingMemory::peak_bytes));
  columns.add("plan", "", "as text, which `--plan` takes; JSON: also every field by name",
              if_planned([](const PlannedTraining& of) { return to_json(of.plan); }));
  columns.add_to_json(
      "resources", "what the busiest SM needs in either pass",
      predicted([](const TrainingPrediction& of) { return resource_columns().json(of.footprint).at("resources"); }));
  columns.add_to_json("phases", "of an iteration, in their order",
                      [](const Row& row) { return row.planned ? ColumnValue(phases_json(row)) : ColumnValue(); });
  columns.add_to_json(
      "otherwise", "of a stack without gradients, the fastest way where that has other layers at once",
      [](const Row& row) { return row.otherwise ? ColumnValue(otherwise_json(*row.otherwise)) : ColumnValue(); });
  columns.add("why", "", "it does not fit", &Row::why_not);
  return columns;
}

}  // namespace

const Columns<TrainingCase>& columns_of(const TrainingCase&) {
  static const Columns<TrainingCase> kColumns = make_columns();
  return kColumns;
}

Json to_json(const TrainingAnswer& answer) {
  Json json = versioned(to_json(static_cast<const TrainingCase&>(answer)));
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

}  // namespace onchip
