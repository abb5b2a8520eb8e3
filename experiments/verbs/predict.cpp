// SPDX-License-Identifier: Apache-2.0
// onchip predict: the analytic model's answer for one network; with --plan all, of every family, and why it lost.
#include "experiments/command/plan_options.hpp"
#include "experiments/command/report.hpp"
#include "experiments/command/verbs.hpp"
#include "model/base/error.hpp"

namespace onchip {
namespace {

Report compare(const ChipFile& chip, const Configuration& configuration) {
  if (configuration.constraints.family) {
    throw InputError("--family contradicts --plan all, which compares them");
  }
  const Recurrent& network = configuration.network;
  Report report;
  report.json = {{"chip", chip.chip.name}, {"network", to_json(network)}, {"plans", Json::array()}};
  report.csv.columns = case_columns();
  report.csv.columns.emplace_back("why");
  Table table{{"family", "us per step", "low", "high", "why"}, {}};
  std::string plans;
  bool fits_on_chip = false;
  for (const RankedPlan& ranked : rank_plans(chip.chip, configuration, row_profile(configuration))) {
    const std::string family(ranked.family);
    Json json{{"family", family}, {"why", ranked.why}};
    std::vector<std::string> cells{family, "", "", "", ranked.why};
    if (ranked.planned) {
      const Case answer{chip.chip.name, configuration, {*ranked.planned}};
      json.update(to_json(answer, Binding::term));
      report.csv.rows.push_back(case_cells(answer, Binding::term));
      report.csv.rows.back().push_back(ranked.why);
      const Prediction& prediction = ranked.planned->prediction;
      if (prediction.footprint.fits) {
        cells = {family, fixed(prediction.step_us, 2), fixed(prediction.low_us, 2), fixed(prediction.high_us, 2),
                 ranked.why};
      }
      if (is_on_chip(ranked.planned->plan)) {
        plans += to_string(ranked.planned->plan) + '\n';
        fits_on_chip = fits_on_chip || prediction.footprint.fits;
      }
    }
    report.json["plans"].push_back(std::move(json));
    table.rows.push_back(std::move(cells));
  }
  report.json["fits"] = fits_on_chip;
  report.text = describe(network) + " on " + chip.chip.name + "\n\n" + to_aligned(table) + '\n' + plans;
  return report;
}

}  // namespace

int run_predict(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto options = parse_options(
      verb, arguments, {chip_options(), network_options(), plan_options(), whole_plan_option(), output_options()});
  if (!options) {
    return 0;
  }
  const ChipFile chip = read_chip(*options);
  const Configuration configuration = read_configuration(*options, /*needs_hidden=*/true, /*takes_all_families=*/true);
  Output output(*options);
  if (options->text("plan") == kAllPlans) {
    const Report report = compare(chip, configuration);
    output.write(report);
    return report.json["fits"].get<bool>() ? 0 : 1;
  }
  const Case answer{chip.chip.name, configuration, plan_network(chip.chip, configuration, row_profile(configuration))};
  Report report{to_text(answer), {case_columns(), {case_cells(answer, Binding::term)}}, to_json(answer, Binding::term)};
  const PlannedNetwork library = quickest_library(chip.chip, answer.planned.network);
  const Prediction& prediction = answer.planned.prediction;
  if (!prediction.footprint.fits || library.prediction.step_us < prediction.step_us) {
    report.text +=
        "\nA library computes it, reading all weights anew in every step:\n  " + instead_text(library) + '\n';
    report.json["instead"] = instead_json(library);
  }
  output.write(report);
  return answer.planned.prediction.footprint.fits ? 0 : 1;
}

}  // namespace onchip
