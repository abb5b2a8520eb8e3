// SPDX-License-Identifier: Apache-2.0
// onchip predict: the analytic model's answer for one network; with --plan all, of every family, and why it lost.
#include "experiments/report.hpp"
#include "experiments/verbs.hpp"
#include "model/error.hpp"

namespace onchip {
namespace {

Report compare(const ChipFile& chip, const Configuration& configuration) {
  if (configuration.wishes.family) {
    throw InputError("--family contradicts --plan all, which compares them");
  }
  const Network& network = configuration.network;
  Report report;
  report.json = {{"chip", chip.chip.name}, {"network", to_json(network)}, {"plans", Json::array()}};
  report.csv.columns = case_columns();
  report.csv.columns.emplace_back("why");
  Table table{{"family", "us per step", "low", "high", "why"}, {}};
  std::string plans;
  for (const RankedPlan& ranked : rank_families(chip.chip, network, row_profile(configuration), configuration.wishes)) {
    const std::string family(name(ranked.family));
    Json json{{"family", family}, {"why", ranked.why}};
    std::vector<std::string> cells{family, "", "", "", ranked.why};
    if (ranked.planned) {
      const Case answer{chip.chip.name, configuration, *ranked.planned};
      json.update(to_json(answer, Binding::part));
      report.csv.rows.push_back(case_cells(answer, Binding::part));
      report.csv.rows.back().push_back(ranked.why);
      const Prediction& prediction = ranked.planned->prediction;
      if (prediction.footprint.fits) {
        cells = {family, fixed(prediction.step_us, 2), fixed(prediction.low_us, 2), fixed(prediction.high_us, 2),
                 ranked.why};
      }
      plans += to_string(ranked.planned->plan) + '\n';
    }
    report.json["plans"].push_back(std::move(json));
    table.rows.push_back(std::move(cells));
  }
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
  const Configuration configuration = read_configuration(*options, /*needs_hidden=*/true, /*compares_plans=*/true);
  Output output(*options);
  if (options->text("plan") == kAllPlans) {
    const Report report = compare(chip, configuration);
    output.write(report);
    return report.json["plans"][0]["fits"].get<bool>() ? 0 : 1;
  }
  const Case answer{chip.chip.name, configuration, plan_network(chip.chip, configuration, row_profile(configuration))};
  output.write(
      {to_text(answer), {case_columns(), {case_cells(answer, Binding::part)}}, to_json(answer, Binding::part)});
  return answer.planned.prediction.footprint.fits ? 0 : 1;
}

}  // namespace onchip
