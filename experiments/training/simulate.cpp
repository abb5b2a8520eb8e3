// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/simulate.hpp"

#include "model/base/error.hpp"
#include "model/base/units.hpp"
#include "model/plan/plan_text.hpp"
#include "model/training/recurrence_price.hpp"
#include "sim/training/simulate_recurrence.hpp"

namespace onchip {

DenseTrainingPlan replayed_plan(const Chip& chip, const AskedTraining& asked) {
  if (asked.training.mask) {
    throw InputError("the simulator replays recurrences of dense networks: leave --density, --mask and --weights out");
  }
  const TrainingPlan plan = plan_training_on_chip(chip, asked.training, asked.constraints).value_or_throw().plan;
  const auto* const dense = std::get_if<DenseTrainingPlan>(&plan);
  if (dense == nullptr) {
    throw InputError("the plan '" + to_string(plan) +
                     "' has no recurrences of onchip's kernels, which is what the simulator replays");
  }
  return *dense;
}

// All layers and directions have the same two recurrences.
int simulate_training(const Options& options, const ChipFile& chip, const AskedTraining& asked,
                      const SimulationOptions& simulation) {
  const Training& training = asked.training;
  const Recurrent& network = training.network;
  const DenseTrainingPlan plan = replayed_plan(chip.chip, asked);
  Output output(options);
  Report report;
  Table table{{"pass", "simulated us", "predicted us", "binding", "plan"}, {}};
  std::vector<std::string> part_columns;
  for (const std::string_view part : kRecurrencePartNames) {
    table.columns.insert(table.columns.end() - 1, std::string(part));
    part_columns.push_back(std::string(part) + "_us");
  }
  report.csv.columns = {"chip",         "cell",         "hidden",  "batch", "precision",    "pass",
                        "simulated_us", "predicted_us", "binding", "plan",  "polls_in_vain"};
  report.csv.columns.insert(report.csv.columns.end(), part_columns.begin(), part_columns.end());
  report.json = {{"chip", chip.chip.name}, {"recurrences", Json::array()}};
  const TrainingSize size = size_of(training);
  for (const bool is_backward : {false, true}) {
    const RecurrencePlan& pass_plan = is_backward ? plan.backward : plan.forward;
    const RecurrenceRun run = simulate_recurrence(chip.chip, size, pass_plan, is_backward, simulation);
    const double predicted = recurrence_price(chip.chip, size, pass_plan, is_backward).terms.total();
    const std::string pass = is_backward ? "backward" : "forward", binding(name(run.binding())),
                      words = fields_text(pass_plan);
    std::vector<std::string> shown{pass, fixed(run.step_us, 3), fixed(predicted, 3), binding, words};
    std::vector<std::string>& cells = report.csv.rows.emplace_back(std::vector<std::string>{
        chip.chip.name, std::string(info(network.cell).name), std::to_string(network.hidden),
        std::to_string(network.batch), std::string(info(network.precision).name), pass, significant(run.step_us, 6),
        significant(predicted, 6), binding, words, significant(run.polls_in_vain, 4)});
    Json parts = Json::object();
    for (std::size_t i = 0; i < run.parts_us.size(); ++i) {
      shown.insert(shown.end() - 1, fixed(run.parts_us[i], 3));
      cells.push_back(significant(run.parts_us[i], 4));
      parts[std::string(kRecurrencePartNames[i])] = rounded(run.parts_us[i]);
    }
    table.rows.push_back(std::move(shown));
    report.json["recurrences"].push_back({{"pass", pass},
                                          {"plan", words},
                                          {"simulated_us", rounded(run.step_us)},
                                          {"predicted_us", rounded(predicted)},
                                          {"binding", binding},
                                          {"parts_us", std::move(parts)},
                                          {"polls_in_vain", rounded(run.polls_in_vain)}});
  }
  report.text = describe(network) + ", " + describe(training.stack, network) +
                ", recurrences of training, simulated on " + chip.chip.name + ", us for each step\n\n" +
                to_aligned(table);
  output.write(report);
  return 0;
}

}  // namespace onchip
