// SPDX-License-Identifier: Apache-2.0
#include "model/answer/case_columns.hpp"

#include "model/base/units.hpp"

#include <algorithm>
#include <array>

namespace onchip {
namespace {

// Columns of CSV: the terms of all families.
constexpr std::array<std::string_view, 8> kTerms{"exchange",  "staging",    "gather",    "arithmetic",
                                                 "reduction", "activation", "streaming", "launch"};
constexpr int kExact = 15;  // digits

// In JSON these are of the object "network".
template <typename Row, typename Get>
void add_of_network(Columns<Row>& columns, const char* name, const char* help, Get get) {
  columns.add(name, "", help, get, std::string("network/") + name, In::csv_and_json, kExact);
}

Columns<Recurrent> make_network_columns() {
  Columns<Recurrent> columns;
  add_of_network(columns, "cell", "as the option", [](const Recurrent& network) { return info(network.cell).name; });
  add_of_network(columns, "hidden", "units of the hidden state", &Recurrent::hidden);
  add_of_network(columns, "batch", "samples at once", &Recurrent::batch);
  add_of_network(columns, "steps", "time steps of the sequence", &Recurrent::steps);
  add_of_network(columns, "density", "share of the weights that are not zero", &Recurrent::density);
  add_of_network(columns, "precision", "of weights and state",
                 [](const Recurrent& network) { return info(network.precision).name; });
  return columns;
}

Columns<Configuration> make_configuration_table() {
  Columns<Configuration> columns;
  columns.add_all(network_columns(), [](const Configuration& of) -> const Recurrent& { return of.network; });
  add_of_network(columns, "mask", "of generated weights; `file` of a user's", mask_name);
  add_of_network(columns, "seed", "that they were generated with", &Configuration::seed);
  columns.add("weights", "", "the user's file", &Configuration::weights_file, "", In::csv);
  columns.add("tensor", "", "its tensor", &Configuration::tensor, "", In::csv);
  columns.add(
      "transpose", "", "whether that was transposed",
      [](const Configuration& configuration) { return configuration.transpose ? "true" : ""; }, "", In::csv);
  return columns;
}

Columns<Footprint> make_resource_columns() {
  Columns<Footprint> columns;
  for (std::size_t i = 0; i < kResources.size(); ++i) {
    const std::string name(kResources[i].name), unit(kResources[i].unit);
    const auto add = [&](const char* what, const char* help, double ResourceUse::*number) {
      columns.add(
          name + what, unit, help, [=](const Footprint& footprint) { return footprint.resources[i].*number; }, "",
          In::csv, kExact);
    };
    add("_used", "that the plan needs", &ResourceUse::used);
    add("_available", "that the chip has", &ResourceUse::available);
  }
  columns.add_to_json("resources",
                      "of each its `name`, what is `used` and `available`, the `unit`, and what of `used` holds "
                      "`weights` and `state`; the rest is staging",
                      [](const Footprint& footprint) {
                        Json json = Json::array();
                        for (std::size_t i = 0; i < kResources.size(); ++i) {
                          const ResourceUse& use = footprint.resources[i];
                          json.push_back({{"name", kResources[i].name},
                                          {"used", rounded(use.used, 9)},
                                          {"available", rounded(use.available, 9)},
                                          {"unit", kResources[i].unit},
                                          {"weights", rounded(use.weights, 9)},
                                          {"state", rounded(use.state, 9)}});
                        }
                        return json;
                      });
  return columns;
}

// A time of what fits.
ColumnValue time_value(const Prediction& prediction, double us) {
  return prediction.footprint.fits ? ColumnValue(us) : ColumnValue(Json());
}

// What was asked, of the network that was found.
Configuration found_configuration(const RecurrentCase& answer) {
  Configuration found = answer.configuration;
  found.network = answer.planned.network;
  return found;
}

Columns<RecurrentCase> make_recurrent_columns(Binding binding) {
  using Row = RecurrentCase;
  Columns<Row> columns;
  const auto of_prediction = [](auto get) {
    return [get](const Row& row) { return to_value(get(row.planned.prediction)); };
  };
  const auto add_us = [&](const char* name, const char* help, double Prediction::*us, const char* place) {
    columns.add(name, "us", help,
                of_prediction([us](const Prediction& prediction) { return time_value(prediction, prediction.*us); }),
                place);
  };
  columns.add("chip", "", "its name", &Row::chip);
  columns.add_all(configuration_table(), found_configuration);
  columns.add("plan", "", "as text, which `--plan` takes; JSON: also every field by name",
              [](const Row& row) { return to_json(row.planned.plan); });
  columns.add("tier", "", "where weights lie at most: registers, shared_memory, streamed; of a library empty",
              &Row::tier);
  columns.add_to_json("refused_plan", "the model's choice, which the compiler spills",
                      [](const Row& row) { return row.planned.refused ? to_string(*row.planned.refused) : ""; });
  columns.add("fits", "", "whether all weights stay on the chip", &Row::fits);
  columns.add("runs", "", "whether it runs, as what reads weights in every step does, too", &Row::runs);
  columns.add_to_json("registers_in_doubt", "whether the compiler may say otherwise",
                      of_prediction([](const Prediction& of) { return of.footprint.registers_in_doubt; }));
  columns.add("binding", "", "the resource that is used most, or the largest term of the time",
              of_prediction([binding](const Prediction& of) { return binding_name(of, binding); }));
  add_us("step_us", "predicted time of a step", &Prediction::step_us, "");
  add_us("low_us", "its 95 % interval", &Prediction::low_us, "interval_us/0");
  add_us("high_us", "its 95 % interval", &Prediction::high_us, "interval_us/1");
  columns.add("floor_us", "us", "no step is below", of_prediction([](const Prediction& of) {
                return of.footprint.fits && of.floor_us > 0 ? ColumnValue(of.floor_us) : ColumnValue(Json());
              }));
  for (const std::string_view term : kTerms) {
    columns.add(std::string(term) + "_us", "us", "the term's part of the step",
                of_prediction([term](const Prediction& of) {
                  const auto* found = std::ranges::find(of.terms, term, &Term::name);
                  return found == of.terms.end() ? ColumnValue() : time_value(of, found->us);
                }),
                "", In::csv);
  }
  columns.add_to_json(
      "terms", "of each its `name` and its `us` of the step", of_prediction([](const Prediction& of) {
        Json json = Json::array();
        for (const Term& term : of.terms) {
          json.push_back({{"name", term.name}, {"us", of.footprint.fits ? Json(rounded(term.us)) : Json()}});
        }
        return json;
      }));
  columns.add_all(resource_columns(),
                  [](const Row& row) -> const Footprint& { return row.planned.prediction.footprint; });
  return columns;
}

}  // namespace

const Columns<Recurrent>& network_columns() {
  static const Columns<Recurrent> kColumns = make_network_columns();
  return kColumns;
}

const Columns<Configuration>& configuration_table() {
  static const Columns<Configuration> kColumns = make_configuration_table();
  return kColumns;
}

const Columns<Footprint>& resource_columns() {
  static const Columns<Footprint> kColumns = make_resource_columns();
  return kColumns;
}

const Columns<RecurrentCase>& recurrent_columns(Binding binding) {
  static const std::array kColumns{make_recurrent_columns(Binding::resource), make_recurrent_columns(Binding::term)};
  return kColumns[binding == Binding::term ? 1 : 0];
}

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

}  // namespace onchip
