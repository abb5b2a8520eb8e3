// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/recurrent_report.hpp"

#include "model/answer/constraint_words.hpp"
#include "model/base/units.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace onchip {
namespace {

constexpr double kNoTime = std::numeric_limits<double>::infinity();

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
  return "streamed: it runs, and what the chip does not hold comes from L2 or DRAM in every step";
}

}  // namespace

std::string instead_text(const PlannedNetwork& other) {
  const FamilyInfo& family = find_family(family_name(other.plan));
  return std::string(family.name) + ": " + time_text(other.prediction) + ", " +
         std::string(family.computes.empty() ? "with weights streamed from L2" : family.computes);
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

std::string to_text(const RecurrentCase& answer) {
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
  std::visit(
      [&](const auto& plan) {
        if constexpr (requires { plan.padded_samples; }) {
          for (const auto& [what, padded, asked] : {std::tuple("samples", plan.padded_samples, network.batch),
                                                    std::tuple("units", plan.padded_units, network.hidden)}) {
            if (padded > 0) {
              line(what, "computes " + std::to_string(padded) + ' ' + what + ", which is faster than " +
                             std::to_string(asked));
            }
          }
        }
      },
      answer.planned.plan);
  line("plan", to_string(answer.planned.plan));
  if (answer.planned.refused) {
    line("refused", to_string(*answer.planned.refused) + ": the compiler spills it");
  }
  if (prediction.footprint.fits) {
    Table terms{{"term", "us", "share %", ""}, {}};
    for (const Term& term : prediction.terms) {
      const double share = term.us / prediction.step_us;
      terms.rows.push_back({std::string(term.name), fixed(term.us, 3), fixed(100 * share, 1), bar(share)});
    }
    text += '\n' + to_aligned(terms);
  }
  return text + '\n' + resources_text(prediction.footprint);
}

namespace {

std::string to_text(const FitAnswer& answer) {
  const bool sized = answer.answer.configuration.network.hidden > 0;
  const std::string of_answer = to_text(answer.answer);
  if (sized) {
    return std::string(answer.is_yes()        ? "It fits: "
                       : answer.answer.runs() ? "It does not fit, but runs: "
                                              : "It does not fit: ") +
           of_answer + remedies_text(answer.to_fit) +
           (!answer.instead ? ""
                            : std::string(answer.is_yes() ? "\nFaster than to keep all weights on the SMs"
                                                          : "\nThe fastest way to compute it all the same") +
                                  ":\n  " + instead_text(*answer.instead) + '\n');
  }
  if (answer.next &&
      answer.next->planned.prediction.footprint.fits) {  // the kernels' index, not the chip, is the limit
    return "The largest that the kernels can index: " + of_answer;
  }
  const PlannedNetwork& next = answer.next ? answer.next->planned : answer.answer.planned;
  const Footprint& over = next.prediction.footprint;
  const std::string reason = over.indexed_units > kMostIndexedUnits
                                 ? explain(over)
                                 : "does not fit: too little of " + std::string(info(over.binding).name);
  const std::string why = "H=" + std::to_string(next.network.hidden) + ' ' + reason + "\n\n" + resources_text(over) +
                          remedies_text(answer.to_fit);
  return answer.next
             ? (answer.is_yes() ? "The largest that fits: " : "The largest that runs: ") + of_answer + '\n' + why
             : "Not even " + why;
}

std::string to_text(const PredictAnswer& answer) {
  return to_text(answer.answer) + (answer.instead
                                       ? "\nA library computes it, reading all weights anew in every step:\n  " +
                                             instead_text(*answer.instead) + '\n'
                                       : "");
}

Report report_of(std::string text, const RecurrentCase& answer, Binding binding, Json json) {
  return {std::move(text), recurrent_columns(binding).table({&answer, 1}), std::move(json)};
}

}  // namespace

Report report_of(const FitAnswer& answer) {
  return report_of(to_text(answer), answer.answer, Binding::resource, to_json(answer));
}

Report report_of(const PredictAnswer& answer) {
  return report_of(to_text(answer), answer.answer, Binding::term, to_json(answer));
}

namespace {

template <typename Answer>
Report report_of_checkpoint(std::span<const Answer> answers, Binding binding) {
  Report report{"", {}, {{"layers", Json::array()}}};
  std::vector<RecurrentCase> cases;
  std::string does_not_fit;
  double step_us = 0;
  for (const Answer& one : answers) {
    const RecurrentCase& of = cases.emplace_back(one.answer);
    report.json["layers"].push_back(to_json(one));
    report.json["layers"].back()["tensor"] = of.configuration.tensor;
    step_us += of.runs() ? of.planned.prediction.step_us : kNoTime;
    does_not_fit += of.fits() ? "" : (does_not_fit.empty() ? "" : ", ") + in_quotes(of.configuration.tensor);
  }
  const bool runs = std::isfinite(step_us);
  report.json["fits"] = does_not_fit.empty();
  report.json["step_us"] = runs ? Json(rounded(step_us)) : Json();
  report.csv = recurrent_columns(binding).table(cases);
  report.text =
      std::to_string(cases.size()) + " recurrent tensors of " + cases[0].configuration.weights_file + " on " +
      cases[0].chip + "\n\n" +
      to_aligned(recurrent_columns(binding).table(
          cases, {"hidden", "tensor", "tier", "fits", "runs", "step_us", "low_us", "high_us"})) +
      (runs ? "\nstep  " + fixed(step_us, 2) + " us for all, one after another\n" : "\n") + "fits  " +
      (does_not_fit.empty() ? "yes: the weights of each stay on the chip while it runs" : "no: " + does_not_fit) + '\n';
  return report;
}

}  // namespace

Report report_of(std::span<const FitAnswer> answers) {
  return report_of_checkpoint(answers, Binding::resource);
}

Report report_of(std::span<const PredictAnswer> answers) {
  return report_of_checkpoint(answers, Binding::term);
}

namespace {

// "dense     331 us (95 %: 275 to 386), 4 layers on the SMs at once: in PyTorch without gradients"
std::string stack_text(const WholeNetworkAnswer& answer) {
  if (!answer.dense) {
    return "";
  }
  const auto& [plan, time] = *answer.dense;
  return "dense     " + fixed(time.us, 0) + " us (95 %: " + fixed(time.low_us, 0) + " to " + fixed(time.high_us, 0) +
         "), " + way_text(plan) + ": in PyTorch without gradients\n";
}

}  // namespace

// A row of CSV for each part, and the total's.
Report report_of(const WholeNetworkAnswer& answer) {
  const RecurrentCase& layer = answer.of_layer.answer;
  const Recurrent& network = layer.planned.network;
  Report report{"", {configuration_columns(), {}}, to_json(answer)};
  report.csv.columns.insert(report.csv.columns.begin(), "chip");
  for (const char* column :
       {"plan", "layers", "directions", "input", "layer", "direction", "part", "us", "low_us", "high_us"}) {
    report.csv.columns.emplace_back(column);
  }
  Table table{{"layer", "direction", "part", "us", "share %"}, {}};
  const auto add = [&](const SequencePart& part, const std::string& of_layer, const std::string& direction) {
    std::vector<std::string> cells = configuration_cells(layer.configuration);
    cells.insert(cells.begin(), layer.chip);
    cells.insert(
        cells.end(),
        {to_string(layer.planned.plan), std::to_string(answer.stack.layers), std::to_string(answer.stack.directions()),
         std::to_string(answer.stack.columns(network, 0)), of_layer, direction, std::string(part.name),
         significant(part.us, 6), significant(part.low_us, 6), significant(part.high_us, 6)});
    report.csv.rows.push_back(std::move(cells));
    table.rows.push_back(
        {of_layer, direction, std::string(part.name), fixed(part.us, 1), fixed(100 * part.us / answer.total.us, 1)});
  };
  for (const SequencePart& part : answer.parts) {
    add(part, std::to_string(part.layer), part.backward ? "backward" : "forward");
  }
  if (!answer.parts.empty()) {
    add(answer.total, "", "");
    report.text = describe(answer.stack, network) + "\n\nsequence  " + fixed(answer.total.us, 0) +
                  " us (95 %: " + fixed(answer.total.low_us, 0) + " to " + fixed(answer.total.high_us, 0) + "), " +
                  fixed(answer.total.us / network.steps, 2) + " us for each step\n" + stack_text(answer) + '\n' +
                  to_aligned(table) + "\nEach direction of each layer:\n\n";
  }
  report.text += to_text(answer.of_layer);
  return report;
}

}  // namespace onchip
