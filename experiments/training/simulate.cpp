// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/simulate.hpp"

#include "experiments/reports/validation_report.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/base/units.hpp"
#include "model/plan/plan_text.hpp"
#include "model/training/recurrence_price.hpp"
#include "sim/training/simulate_recurrence.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>

namespace onchip {
namespace {

double priced_us(const Chip& chip, const TrainingSize& size, const RecurrencePlan& plan, bool is_backward) {
  return recurrence_price(chip, size, plan, is_backward).terms.total();
}

}  // namespace

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
    const double predicted = priced_us(chip.chip, size, pass_plan, is_backward);
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

std::vector<RecurrenceRow> simulate_recurrences(const CsvReader& file, const Chip& chip,
                                                const SimulationOptions& simulation) {
  struct Asked {
    std::size_t row;
    bool is_backward;
  };
  std::vector<Asked> all;
  for (std::size_t i = 0; i < file.size(); ++i) {
    for (const bool is_backward : {false, true}) {
      if (file.text(i, "library") == "onchip" && !file.text(i, is_backward ? "backward_us" : "forward_us").empty()) {
        all.push_back({i, is_backward});
      }
    }
  }
  std::vector<RecurrenceRow> rows(all.size());
  parallel_for(static_cast<int>(all.size()), simulation.threads, [&](int i) {
    const auto [row, is_backward] = all[static_cast<std::size_t>(i)];
    const AskedTraining asked = read_training_row(file, row);
    if (asked.training.mask) {
      file.fail(row, "the simulator replays recurrences of dense networks");
    }
    const TrainingSize size = size_of(asked.training);
    const double measured = file.number(row, is_backward ? "backward_us" : "forward_us");
    if (!(measured > 0 && std::isfinite(measured))) {
      file.fail(row, "a recurrence's time: expected one above 0");
    }
    try {
      const RecurrencePlan plan =
          changed(RecurrencePlan{}, is_backward ? asked.constraints.fields.backward : asked.constraints.fields.forward);
      const double us = simulate_recurrence(chip, size, plan, is_backward, simulation).step_us;
      const double half = chip.gather_scatter * us;  // as of the model's recurrences
      rows[static_cast<std::size_t>(i)] = {
          {chip.name, describe(asked.training.network), fields_text(plan), {measured, us, us - half, us + half}},
          is_backward ? "backward" : "forward",
          priced_us(chip, size, plan, is_backward)};
    } catch (const InputError& error) {
      file.fail(row, error.what());
    }
  });
  return rows;
}

Accuracy score(const std::vector<RecurrenceRow>& rows) {
  return score(comparisons_of(rows, [](const RecurrenceRow&) { return true; }));
}

namespace {

Columns<RecurrenceRow> row_columns() {
  using Row = RecurrenceRow;
  Columns<Row> columns;
  columns.add("chip", "", "that it was measured on", &Row::chip, "", In::csv);
  columns.add("network", "", "that is trained", &Row::network);
  columns.add("pass", "", "forward or backward", &Row::pass);
  columns.add("plan", "", "that ran", &Row::way);
  add_comparison(columns, "us", nullptr, "simulated");
  columns.add("predicted_us", "us", "by the analytic model", &Row::predicted_us);
  add_error(columns);
  return columns;
}

std::vector<std::string> shown_cells(const RecurrenceRow& row) {
  return {row.network,
          row.pass,
          significant(row.comparison.measured, 4),
          significant(row.comparison.predicted, 4),
          significant(row.predicted_us, 4),
          fixed(row.comparison.error_percent(), 1),
          row.way};
}

}  // namespace

Report report(const std::vector<RecurrenceRow>& rows, std::size_t shown_rows) {
  constexpr double kNear = 10;
  constexpr std::array<std::string_view, 2> kPasses{"forward", "backward"};
  ScoreGroups groups = score_groups("pass", kPasses, rows, &RecurrenceRow::pass);
  std::string near;
  for (const std::string_view pass : kPasses) {
    std::set<std::string> plans, near_plans;
    for (const RecurrenceRow& row : rows) {
      if (row.pass == pass) {
        const std::string plan = row.chip + row.network.substr(0, row.network.rfind(' ')) + row.way;
        plans.insert(plan);
        if (std::abs(row.comparison.error_percent()) <= kNear) {
          near_plans.insert(plan);
        }
      }
    }
    if (!plans.empty()) {
      near += std::string(pass) + ": " + std::to_string(near_plans.size()) + " of " + std::to_string(plans.size()) +
              " plans are within " + fixed(kNear, 0) + " %\n";
    }
  }
  Report report;
  report.text = "Time of a step of a training recurrence, simulated against measured:\n\n" + to_aligned(groups.table) +
                '\n' + near;
  report.json = to_json(score(rows));
  add_rows(row_columns(), rows, report);
  report.json["passes"] = std::move(groups.json);
  add_worst(rows, shown_rows, {"network", "pass", "measured us", "simulated us", "predicted us", "error %", "plan"},
            shown_cells, report);
  return report;
}

}  // namespace onchip
