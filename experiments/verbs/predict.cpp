// SPDX-License-Identifier: Apache-2.0
// onchip predict: the analytic model's answer for one network; with --plan all, of every family, and why it lost.
#include "experiments/command/plan_options.hpp"
#include "experiments/command/report.hpp"
#include "experiments/command/verbs.hpp"
#include "model/base/error.hpp"

namespace onchip {
namespace {

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

}  // namespace

int run_predict(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto options = parse_options(
      verb, arguments, {chip_options(), network_options(), plan_options(), whole_plan_option(), output_options()});
  if (!options) {
    return 0;
  }
  const Question question{read_chip(*options),
                          read_configuration(*options, /*needs_hidden=*/true, /*takes_all_families=*/true)};
  Output output(*options);
  if (options->text("plan") == kAllPlans) {
    if (question.configuration.constraints.family) {
      throw InputError("--family contradicts --plan all, which compares them");
    }
    const RankAnswer answer = rank(question);
    output.write(report_of(answer));
    return answer.fits ? 0 : 1;
  }
  const PredictAnswer answer = predict(question);
  std::string text = to_text(answer.answer);
  if (answer.instead) {
    text +=
        "\nA library computes it, reading all weights anew in every step:\n  " + instead_text(*answer.instead) + '\n';
  }
  output.write({text, {case_columns(), {case_cells(answer.answer, Binding::term)}}, to_json(answer)});
  return answer.answer.planned.prediction.footprint.fits ? 0 : 1;
}

}  // namespace onchip
