// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/report.hpp"

#include "model/base/units.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {
namespace {

std::string_view binding_name(const Prediction& prediction, Binding binding) {
  // What does not fit has no step time to be bound.
  return binding == Binding::resource || !prediction.footprint.fits ? info(prediction.footprint.binding).name
                                                                    : name(prediction.binding);
}

// The time of what does not fit is nobody's: null.
Json time_json(const Prediction& prediction, double us) {
  return prediction.footprint.fits && std::isfinite(us) ? Json(rounded(us)) : Json(nullptr);
}

std::string time_cell(const Prediction& prediction, double us) {
  return prediction.footprint.fits ? significant(us, 6) : "";
}

}  // namespace

Json to_json(const Network& network) {
  return {{"cell", info(network.cell).name}, {"hidden", network.hidden},   {"batch", network.batch},
          {"steps", network.steps},          {"density", network.density}, {"precision", info(network.precision).name}};
}

Json to_json(const Plan& plan) {
  if (is_library(plan.family)) {
    return {{"family", name(plan.family)}, {"text", to_string(plan)}};
  }
  return {{"family", name(plan.family)},
          {"storage", name(plan.storage)},
          {"order", name(plan.order)},
          {"exchange", name(plan.exchange)},
          {"sms", plan.sms},
          {"threads", plan.threads},
          {"lanes_per_row", plan.lanes_per_row},
          {"rows_per_group", plan.rows_per_group},
          {"slots", std::vector<int>(plan.slots.begin(), plan.slots.begin() + plan.rows_per_group)},
          {"batch_padded", plan.batch_padded},
          {"tile_rows", plan.tile_rows},
          {"pass_planes", plan.pass_planes},
          {"load_bytes", plan.load_bytes},
          {"loads_in_flight", plan.loads_in_flight},
          {"promote_every", plan.promote_every},
          {"tail_chunks", plan.tail_chunks},
          {"longest_tail", plan.longest_tail},
          {"shared_chunks", plan.shared_chunks},
          {"chunks_in_flight", plan.chunks_in_flight},
          {"ring_chunks", plan.ring_chunks},
          {"shared_tiles", plan.shared_tiles},
          {"bank_words", plan.bank_words},
          {"first_look", plan.first_look},
          {"pieces", plan.pieces},
          {"piece_slots", plan.piece_slots},
          {"most_pieces", plan.most_pieces},
          {"row_chunks", plan.row_chunks},
          {"piece_chunks", plan.piece_chunks},
          {"exchange_warps", plan.exchange_warps},
          {"teams", plan.teams},
          {"text", to_string(plan)}};
}

Json to_json(const Case& answer, Binding binding) {
  const Prediction& prediction = answer.planned.prediction;
  Json json{
      {"chip", answer.chip}, {"network", to_json(answer.planned.network)}, {"plan", to_json(answer.planned.plan)}};
  json["network"]["mask"] = mask_name(answer.configuration);
  json["network"]["seed"] = answer.configuration.seed;
  json["fits"] = prediction.footprint.fits;
  json["binding"] = binding_name(prediction, binding);
  json["resources"] = Json::array();
  for (std::size_t i = 0; i < kResources.size(); ++i) {
    const ResourceUse& use = prediction.footprint.resources[i];
    json["resources"].push_back({{"name", kResources[i].name},
                                 {"used", rounded(use.used, 9)},
                                 {"available", rounded(use.available, 9)},
                                 {"unit", kResources[i].unit}});
  }
  json["step_us"] = time_json(prediction, prediction.step_us);
  json["interval_us"] = {time_json(prediction, prediction.low_us), time_json(prediction, prediction.high_us)};
  json["floor_us"] = time_json(prediction, prediction.floor_us);
  json["parts"] = Json::array();
  for (std::size_t i = 0; i < kPartNames.size(); ++i) {
    json["parts"].push_back({{"name", kPartNames[i]}, {"us", time_json(prediction, prediction.parts_us[i])}});
  }
  return json;
}

std::vector<std::string> case_columns() {
  std::vector<std::string> columns = configuration_columns();
  columns.insert(columns.begin(), "chip");
  for (const char* column : {"plan", "fits", "binding", "step_us", "low_us", "high_us", "floor_us"}) {
    columns.emplace_back(column);
  }
  for (const std::string_view part : kPartNames) {
    columns.push_back(std::string(part) + "_us");
  }
  for (const ResourceInfo& resource : kResources) {
    columns.push_back(std::string(resource.name) + "_used");
    columns.push_back(std::string(resource.name) + "_available");
  }
  return columns;
}

std::vector<std::string> case_cells(const Case& answer, Binding binding) {
  const Prediction& prediction = answer.planned.prediction;
  Configuration found = answer.configuration;
  found.network = answer.planned.network;
  std::vector<std::string> cells = configuration_cells(found);
  cells.insert(cells.begin(), answer.chip);
  cells.insert(cells.end(), {to_string(answer.planned.plan), prediction.footprint.fits ? "1" : "0",
                             std::string(binding_name(prediction, binding)), time_cell(prediction, prediction.step_us),
                             time_cell(prediction, prediction.low_us), time_cell(prediction, prediction.high_us),
                             time_cell(prediction, prediction.floor_us)});
  for (const double part : prediction.parts_us) {
    cells.push_back(time_cell(prediction, part));
  }
  for (const ResourceUse& use : prediction.footprint.resources) {
    cells.push_back(format_number(use.used));
    cells.push_back(format_number(use.available));
  }
  return cells;
}

std::string instead_text(const PlannedNetwork& other) {
  const bool product_only = other.plan.family == Family::cublas_graph || other.plan.family == Family::cusparse_graph;
  return std::string(name(other.plan.family)) + ": " + time_text(other.prediction) +
         (product_only                    ? ", its products alone, without input, bias and activation"
          : is_library(other.plan.family) ? ", its input's product included"
                                          : ", with weights streamed from L2");
}

Json instead_json(const PlannedNetwork& other) {
  return {{"plan", to_json(other.plan)},
          {"step_us", rounded(other.prediction.step_us)},
          {"interval_us", {rounded(other.prediction.low_us), rounded(other.prediction.high_us)}}};
}

std::string time_text(const Prediction& prediction) {
  return fixed(prediction.step_us, 2) + " us (95 %: " + fixed(prediction.low_us, 2) + " to " +
         fixed(prediction.high_us, 2) + ")";
}

std::string resources_text(const Footprint& footprint) {
  Table table{{"resource", "used", "available", "share %", "unit"}, {}};
  for (std::size_t i = 0; i < kResources.size(); ++i) {
    const ResourceUse& use = footprint.resources[i];
    table.rows.push_back({std::string(kResources[i].name), format_number(std::ceil(use.used)),
                          format_number(use.available), use.available > 0 ? fixed(100 * use.share(), 0) : "",
                          std::string(kResources[i].unit)});
  }
  return to_aligned(table);
}

std::string to_text(const Case& answer) {
  const Prediction& prediction = answer.planned.prediction;
  const Network& network = answer.planned.network;
  std::string text = describe(network) + " on " + answer.chip + "\n\n";
  const auto line = [&](const char* title, const std::string& value) {
    text += std::string(title) + std::string(10 - std::string_view(title).size(), ' ') + value + '\n';
  };
  if (prediction.footprint.fits) {
    line("step", time_text(prediction) + ", " + fixed(prediction.step_us * network.steps, 0) + " us for " +
                     std::to_string(network.steps) + " steps");
    line("floor", fixed(prediction.floor_us, 2) + (is_library(answer.planned.plan.family)
                                                       ? " us: all weights through L2 or DRAM"
                                                       : " us: the exchange of the state and conflict-free loads"));
    line("bound by", std::string(name(prediction.binding)) + " in time, " +
                         std::string(info(prediction.footprint.binding).name) + " in size");
  } else {
    line("fits", "no: too little of " + std::string(info(prediction.footprint.binding).name));
  }
  line("plan", to_string(answer.planned.plan));
  if (prediction.footprint.fits) {
    Table parts{{"part", "us", "share %", ""}, {}};
    for (std::size_t i = 0; i < kPartNames.size(); ++i) {
      const double share = prediction.parts_us[i] / prediction.step_us;
      parts.rows.push_back({std::string(kPartNames[i]), fixed(prediction.parts_us[i], 3), fixed(100 * share, 1),
                            std::string(static_cast<std::size_t>(std::max(0.0, std::round(40 * share))), '#')});
    }
    text += '\n' + to_aligned(parts);
  }
  return text + '\n' + resources_text(prediction.footprint);
}

}  // namespace onchip
