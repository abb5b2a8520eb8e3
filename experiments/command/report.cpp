// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/report.hpp"

#include "experiments/command/configuration_rows.hpp"
#include "model/answer/constraint_words.hpp"
#include "model/base/units.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace onchip {
namespace {

// Columns of CSV: the terms of all families.
constexpr std::array<std::string_view, 8> kTerms{"exchange",  "staging",    "gather",    "arithmetic",
                                                 "reduction", "activation", "streaming", "launch"};

std::string time_cell(const Prediction& prediction, double us) {
  return prediction.footprint.fits ? significant(us, 6) : "";
}

// "yes, but registers are in doubt, 166 of 168 per thread: the compiler decides"
std::string fits_text(const Footprint& footprint) {
  const ResourceUse& registers = footprint.resources[static_cast<std::size_t>(Resource::registers)];
  const std::string numbers =
      format_number(std::ceil(registers.used)) + " of " + format_number(registers.available) + " per thread";
  return (footprint.fits ? "yes" : "no: too little of " + std::string(info(footprint.binding).name)) +
         (footprint.registers_in_doubt ? ", but registers are in doubt, " + numbers + ": the compiler decides" : "");
}

// Where a plan's weights lie.
std::string tier_text(Tier tier) {
  switch (tier) {
    case Tier::registers:
      return "registers: every weight stays there";
    case Tier::shared_memory:
      return "shared_memory: what registers do not hold stays there";
    case Tier::streamed:
      break;
  }
  return "streamed: what the chip does not hold comes from L2 or DRAM in every step";
}

}  // namespace

std::vector<std::string> case_columns() {
  std::vector<std::string> columns = configuration_columns();
  columns.insert(columns.begin(), "chip");
  for (const char* column : {"plan", "fits", "binding", "step_us", "low_us", "high_us", "floor_us"}) {
    columns.emplace_back(column);
  }
  for (const std::string_view term : kTerms) {
    columns.push_back(std::string(term) + "_us");
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
  cells.insert(cells.end(), {to_string(answer.planned.plan), truth(prediction.footprint.fits),
                             std::string(binding_name(prediction, binding)), time_cell(prediction, prediction.step_us),
                             time_cell(prediction, prediction.low_us), time_cell(prediction, prediction.high_us),
                             time_cell(prediction, prediction.floor_us)});
  for (const std::string_view name : kTerms) {
    const auto* term = std::ranges::find(prediction.terms, name, &Term::name);
    cells.push_back(term == prediction.terms.end() ? "" : time_cell(prediction, term->us));
  }
  for (const ResourceUse& use : prediction.footprint.resources) {
    cells.push_back(format_number(use.used));
    cells.push_back(format_number(use.available));
  }
  return cells;
}

std::string instead_text(const PlannedNetwork& other) {
  const FamilyInfo& family = find_family(family_name(other.plan));
  return std::string(family.name) + ": " + time_text(other.prediction) + ", " +
         std::string(family.computes.empty() ? "with weights streamed from L2" : family.computes);
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
  const Recurrent& network = answer.planned.network;
  std::string text = describe(network) + " on " + answer.chip + "\n\n";
  const auto line = [&](const char* title, const std::string& value) {
    text += std::string(title) + std::string(10 - std::string_view(title).size(), ' ') + value + '\n';
  };
  if (prediction.footprint.fits) {
    line("step", time_text(prediction) + ", " + fixed(prediction.step_us * network.steps, 0) + " us for " +
                     std::to_string(network.steps) + " steps");
    if (prediction.floor_us > 0) {
      line("floor",
           fixed(prediction.floor_us, 2) + " us: no step is below, by the loads, the products and the exchange");
    }
    line("bound by", std::string(prediction.binding()) + " in time, " +
                         std::string(info(prediction.footprint.binding).name) + " in size");
  }
  if (!prediction.footprint.fits || prediction.footprint.registers_in_doubt) {
    line("fits", fits_text(prediction.footprint));
  }
  if (!answer.configuration.plan && is_on_chip(answer.planned.plan)) {
    line("tier", tier_text(tier_of(answer.planned.plan)));
  }
  line("plan", to_string(answer.planned.plan));
  if (answer.planned.refused) {
    line("refused", to_string(*answer.planned.refused) + ": the compiler spills it");
  }
  if (prediction.footprint.fits) {
    Table terms{{"term", "us", "share %", ""}, {}};
    for (const Term& term : prediction.terms) {
      const double share = term.us / prediction.step_us;
      terms.rows.push_back({std::string(term.name), fixed(term.us, 3), fixed(100 * share, 1),
                            std::string(static_cast<std::size_t>(std::max(0.0, std::round(40 * share))), '#')});
    }
    text += '\n' + to_aligned(terms);
  }
  return text + '\n' + resources_text(prediction.footprint);
}

}  // namespace onchip
