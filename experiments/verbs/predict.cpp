// SPDX-License-Identifier: Apache-2.0
// onchip predict: the analytic model's answer for one network; with --plan all, of every family, and why it lost.
#include "experiments/command/configuration_rows.hpp"
#include "experiments/command/plan_options.hpp"
#include "experiments/command/report.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/feed_forward/answers.hpp"
#include "experiments/feed_forward/questions.hpp"
#include "experiments/training/answers.hpp"
#include "model/base/error.hpp"

namespace onchip {
namespace {

std::string to_text(const PredictAnswer& answer) {
  return to_text(answer.answer) + (answer.instead
                                       ? "\nA library computes it, reading all weights anew in every step:\n  " +
                                             instead_text(*answer.instead) + '\n'
                                       : "");
}

Report report_of(const RankAnswer& answer) {
  Table table{{"family", "us per step", "low", "high", "why"}, {}};
  Table csv{case_columns(), {}};
  csv.columns.emplace_back("why");
  std::string plans;
  for (const RankedPlan& ranked : answer.ranking) {
    const std::string family(ranked.family);
    std::vector<std::string> cells{family, "", "", "", ranked.why};
    if (ranked.planned) {
      csv.rows.push_back(case_cells({answer.chip, answer.configuration, {*ranked.planned}}, Binding::term));
      csv.rows.back().push_back(ranked.why);
      const Prediction& prediction = ranked.planned->prediction;
      if (prediction.footprint.fits) {
        cells = {family, fixed(prediction.step_us, 2), fixed(prediction.low_us, 2), fixed(prediction.high_us, 2),
                 ranked.why};
      }
      if (is_on_chip(ranked.planned->plan)) {
        plans += to_string(ranked.planned->plan) + '\n';
      }
    }
    table.rows.push_back(std::move(cells));
  }
  return {describe(answer.configuration.network) + " on " + answer.chip + "\n\n" + to_aligned(table) + '\n' + plans,
          std::move(csv), to_json(answer)};
}

// A row of CSV for each part, and the total's.
Report report_of(const WholeNetworkAnswer& answer) {
  const Case& layer = answer.of_layer.answer;
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
                  fixed(answer.total.us / network.steps, 2) + " us for each step\n\n" + to_aligned(table) +
                  "\nEach direction of each layer:\n\n";
  }
  report.text += to_text(answer.of_layer);
  return report;
}

}  // namespace

int run_predict(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto options =
      parse_options(verb, arguments,
                    {chip_options(), network_options(), whole_network_options(), plan_options(), whole_plan_option(),
                     training_options(), feed_forward_options(), output_options()});
  if (!options) {
    return 0;
  }
  if (asks_feed_forward(*options, {network_options(), whole_network_options(), plan_options(), whole_plan_option()})) {
    return predict_feed_forward(*options);
  }
  if (asks_training(*options)) {
    return predict_training(*options);
  }
  const Question question{read_chip(*options),
                          read_configuration(*options, /*needs_hidden=*/true, /*takes_all_families=*/true)};
  const std::optional<Stack> stack = read_stack(*options);
  Output output(*options);
  if (options->text("plan") == kAllPlans) {
    if (stack) {
      throw InputError("--plan all compares steps: leave --layers, --bidirectional and --input out");
    }
    if (question.configuration.constraints.family) {
      throw InputError("--family contradicts --plan all, which compares them");
    }
    const RankAnswer answer = rank(question);
    output.write(report_of(answer));
    return answer.fits ? 0 : 1;
  }
  if (stack) {
    const WholeNetworkAnswer answer = predict(question, *stack);
    output.write(report_of(answer));
    return answer.parts.empty() ? 1 : 0;
  }
  const PredictAnswer answer = predict(question);
  output.write({to_text(answer), {case_columns(), {case_cells(answer.answer, Binding::term)}}, to_json(answer)});
  return answer.answer.planned.prediction.footprint.fits ? 0 : 1;
}

}  // namespace onchip
