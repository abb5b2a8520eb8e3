// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/validation.hpp"

#include "experiments/training/answers.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <string_view>

namespace onchip {
namespace {

constexpr std::string_view kKernelRows = "onchip", kCudnnRows = "cudnn";

// How much longer the pick takes than the quickest way that was measured, of each network with several; compared as
// plan_training() does.
std::map<std::string, double> losses_percent(const std::vector<ScoredRow>& rows) {
  std::vector<Choice> choices;
  for (const ScoredRow& row : rows) {
    choices.push_back({row.network, std::to_string(choices.size()), row.comparison.measured,
                       row.comparison.predicted * (row.is_library ? 1 - kLibraryDoubt : 1)});
  }
  return score_picks(choices).losses_percent;
}

Columns<ScoredRow> row_columns(bool ablates) {
  Columns<ScoredRow> columns;
  columns.add("chip", "", "that it was measured on", &ScoredRow::chip, "", In::csv);
  columns.add("network", "", "with its steps and input", &ScoredRow::network);
  columns.add("way", "", "both plans, or the library", &ScoredRow::way);
  add_comparison(columns, "us", "interval_us/");
  add_error(columns);
  if (ablates) {
    add_without(columns, "us");
  }
  return columns;
}

std::vector<std::string> shown_cells(const ScoredRow& row) {
  return {row.network, significant(row.comparison.measured, 4), significant(row.comparison.predicted, 4),
          fixed(row.comparison.error_percent(), 1), row.way};
}

}  // namespace

bool has_trainings(const CsvReader& file) {
  return file.has("plan_forward") && file.has("plan_backward") && file.has("us");
}

std::vector<ScoredRow> read_trainings(const CsvReader& file, const Chip& chip, std::span<const Ablation> ablations) {
  std::vector<ScoredRow> rows;
  for (std::size_t i = 0; i < file.size(); ++i) {
    const std::string library = file.text(i, "library").substr(0, file.text(i, "library").find(' '));
    if (file.text(i, "us").empty() ||
        (library != kKernelRows && (library != kCudnnRows || file.text(i, "best") != "true"))) {
      continue;
    }
    const AskedTraining asked = read_training_row(file, i);
    const Training& training = asked.training;
    ScoredRow row{.chip = chip.name,
                  .network = describe(training.network) + ", " + std::to_string(training.network.steps) +
                             " steps, input " + std::to_string(training.stack.input),
                  .way = std::string(kCudnnRows),
                  .comparison = {},
                  .is_library = library == kCudnnRows};
    try {
      TrainingPlan plan = CudnnTrainingPlan{};
      if (library == kKernelRows) {
        const PassFields& fields = asked.constraints.fields;
        row.way = fields.forward + " | " + fields.backward;
        plan = with_passes(training, fields);
      }
      const PhasePrice priced = predict(chip, training, plan).iteration;
      const double steps = training.network.steps;
      row.comparison = {file.number(i, "us"), priced.us / steps, priced.low_us / steps, priced.high_us / steps};
      row.without = predict_without(
          chip, ablations, [&](const Chip& changed) { return predict(changed, training, plan).iteration.us / steps; });
    } catch (const InputError& error) {
      file.fail(i, error.what());
    }
    if (!(row.comparison.measured > 0 && std::isfinite(row.comparison.measured))) {
      file.fail(i, "column 'us': expected a time above 0");
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Accuracy score(const std::vector<ScoredRow>& rows) {
  return score(comparisons_of(rows, std::not_fn(&ScoredRow::is_library)));
}

Report report(const std::vector<ScoredRow>& rows, std::span<const Ablation> ablations, std::size_t shown_rows) {
  constexpr double kNear = 5;
  if (ablations.size() > 1) {
    return report_worth(rows, ablations);
  }
  const Accuracy own = score(rows);
  ScoreGroups groups = score_groups("way", std::array{kKernelRows, kCudnnRows}, rows,
                                    [](const ScoredRow& row) { return row.is_library ? kCudnnRows : kKernelRows; });
  const std::map<std::string, double> losses = losses_percent(rows);
  const auto near = std::ranges::count_if(losses, [](const auto& loss) { return loss.second <= kNear; });
  Report report;
  report.text = "Time of a training step, predicted against measured:\n\n" + to_aligned(groups.table) +
                "\nKendall's tau of onchip's rows: " + fixed(own.kendall_tau, 3) + "\nThe pick is within " +
                fixed(kNear, 0) + " % of the quickest way that was measured in " + std::to_string(near) + " of " +
                std::to_string(losses.size()) + " networks\n";
  report.json = to_json(own);
  report.json["ways"] = std::move(groups.json);
  report.json["picks"] = Json::array();
  for (const auto& [network, loss] : losses) {
    report.json["picks"].push_back({{"network", network}, {"loss_percent", rounded(loss)}});
    if (loss > kNear) {
      report.text += "  not of " + network + ": " + fixed(loss, 1) + " %\n";
    }
  }
  if (!ablations.empty()) {
    add_ablation(rows, ablations.front(), report);
  }
  add_rows(row_columns(!ablations.empty()), rows, report);
  add_worst(rows, shown_rows, {"network", "measured us", "predicted us", "error %", "way"}, shown_cells, report);
  return report;
}

}  // namespace onchip
