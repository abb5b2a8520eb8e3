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
  if (dense->stepwise) {
    throw InputError("the plan '" + to_string(plan) + "' launches each step, and the simulator replays recurrences: " +
                     "give one of these by --plan, as fit --layers prints it");
  }
  return *dense;
}

namespace {

// A recurrence that is replayed, of all layers and directions, or of those of a stack that have this role.
struct Replayed {
  std::string_view pass;
  bool is_backward = false;
  LayerRole role = {};
};

std::vector<Replayed> replayed_of(const DenseTrainingPlan& plan) {
  const int layers = plan.forward.layers;
  if (plan.stash != Stash::none) {
    return {{"forward"}, {"backward", true}};
  }
  if (layers == 1) {
    return {{"forward", false, {.keeps = false}}};
  }
  std::vector<Replayed> all{{"first layer", false, {.keeps = false, .is_last = false}},
                            {"last layer", false, {.keeps = false, .is_first = false}}};
  if (layers > 2) {
    all.insert(all.begin() + 1, {"layers between", false, {false, false, false}});
  }
  return all;
}

// What a sequence takes where a step of the recurrences takes so long, whatever else is as predicted.
double sequence_us(const Training& training, const DenseTrainingPlan& plan, const TrainingPrediction& prediction,
                   double predicted_us, double step_us) {
  double us = prediction.iteration.us;
  for (const Phase& phase : phases_of(training, plan)) {
    if (phase.kind == PhaseKind::forward) {
      us += recurrence_steps(training.network, phase) * (step_us - predicted_us);
    }
  }
  return us;
}

}  // namespace

int simulate_training(const Options& options, const ChipFile& chip, const AskedTraining& asked,
                      const SimulationOptions& simulation) {
  const Training& training = asked.training;
  const Recurrent& network = training.network;
  const DenseTrainingPlan plan = replayed_plan(chip.chip, asked);
  Output output(options);
  Report report;
  Table table{{"pass", "simulated us", "predicted us", "binding", "plan"}, {}};
  Table counts{
      {"of an SM and step", "shared wavefronts", "state bytes", "published bytes", "L2 bytes", "polls in vain"}, {}};
  std::vector<std::string> part_columns;
  for (const std::string_view part : kRecurrencePartNames) {
    table.columns.insert(table.columns.end() - 1, std::string(part));
    part_columns.push_back(std::string(part) + "_us");
  }
  report.csv.columns = {"chip",         "cell",         "hidden",  "batch", "precision",    "pass",
                        "simulated_us", "predicted_us", "binding", "plan",  "polls_in_vain"};
  report.csv.columns.insert(report.csv.columns.end(), part_columns.begin(), part_columns.end());
  report.csv.columns.insert(report.csv.columns.end(),
                            {"shared_wavefronts", "state_bytes", "published_bytes", "l2_bytes"});
  report.json = {{"chip", chip.chip.name}, {"recurrences", Json::array()}};
  const TrainingSize size = size_of(training);
  double slowest_us = 0, predicted = 0;
  std::string slowest;
  for (const auto& [pass_name, is_backward, role] : replayed_of(plan)) {
    const RecurrencePlan& pass_plan = is_backward ? plan.backward : plan.forward;
    const RecurrenceRun run = simulate_recurrence(chip.chip, size, pass_plan, is_backward, simulation, role);
    predicted = recurrence_price(chip.chip, size, pass_plan, is_backward).terms.total();
    const std::string pass(pass_name), binding(name(run.binding())), words = fields_text(pass_plan);
    if (run.step_us > slowest_us) {
      slowest_us = run.step_us;
      slowest = pass;
    }
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
    counts.rows.push_back({pass});
    for (const double count : {run.shared_wavefronts, run.state_bytes, run.published_bytes, run.l2_bytes}) {
      counts.rows.back().push_back(fixed(count, 0));
      cells.push_back(significant(count, 6));
    }
    counts.rows.back().push_back(fixed(run.polls_in_vain, 1));
    report.json["recurrences"].push_back({{"pass", pass},
                                          {"plan", words},
                                          {"simulated_us", rounded(run.step_us)},
                                          {"predicted_us", rounded(predicted)},
                                          {"binding", binding},
                                          {"parts_us", std::move(parts)},
                                          {"shared_wavefronts", rounded(run.shared_wavefronts)},
                                          {"state_bytes", rounded(run.state_bytes)},
                                          {"published_bytes", rounded(run.published_bytes)},
                                          {"l2_bytes", rounded(run.l2_bytes)},
                                          {"polls_in_vain", rounded(run.polls_in_vain)}});
  }
  report.text = describe(network) + ", " + describe(training.stack, network) + ", recurrences of " +
                (plan.stash == Stash::none ? way_text(plan) : "training") + ", simulated on " + chip.chip.name +
                ", us for each step\n\n" + to_aligned(table) + '\n' + to_aligned(counts);
  if (plan.stash == Stash::none) {
    const TrainingPrediction prediction = predict(chip.chip, training, plan);
    const double us = sequence_us(training, plan, prediction, predicted, slowest_us);
    report.json["plan_text"] = to_string(TrainingPlan(plan));
    report.json["slowest"] = slowest;
    report.json["sequence"] = {{"simulated_us", rounded(us)}, {"predicted_us", rounded(prediction.iteration.us)}};
    report.text += "\nsequence   " + fixed(us, 0) + " us simulated, " + fixed(prediction.iteration.us, 0) +
                   " us predicted; the slowest: " + slowest + "\nplan       " + to_string(TrainingPlan(plan)) + '\n';
  }
  output.write(report);
  return 0;
}

}  // namespace onchip
