// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/validation.hpp"

#include "experiments/reports/recurrent_report.hpp"
#include "experiments/reports/validation_report.hpp"
#include "experiments/training/answers.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace onchip {
namespace {

constexpr const char* kKernelRows = "onchip";
constexpr const char* kCudnnRows = "cudnn";

std::vector<Comparison> comparisons_of(const std::vector<TrainingRow>& rows, bool library) {
  std::vector<Comparison> comparisons;
  for (const TrainingRow& row : rows) {
    if (row.is_library() == library) {
      comparisons.push_back(row.comparison);
    }
  }
  return comparisons;
}

// As plan_training() compares them.
double compared_us(const TrainingRow& row) {
  return row.comparison.predicted * (row.is_library() ? 1 - kLibraryDoubt : 1);
}

// How much longer the pick takes than the quickest way that was measured, of each network with several.
std::map<std::string, double> losses_percent(const std::vector<TrainingRow>& rows) {
  struct Known {
    const TrainingRow *picked, *best;
    int ways = 0;
  };
  std::map<std::string, Known> known;
  for (const TrainingRow& row : rows) {
    Known& one = known.try_emplace(row.network, Known{&row, &row}).first->second;
    ++one.ways;
    one.picked = compared_us(row) < compared_us(*one.picked) ? &row : one.picked;
    one.best = row.comparison.measured < one.best->comparison.measured ? &row : one.best;
  }
  std::map<std::string, double> losses;
  for (const auto& [network, one] : known) {
    if (one.ways > 1) {
      losses[network] = 100 * (one.picked->comparison.measured / one.best->comparison.measured - 1);
    }
  }
  return losses;
}

}  // namespace

bool has_trainings(const CsvReader& file) {
  return file.has("plan_forward") && file.has("plan_backward") && file.has("us");
}

std::vector<TrainingRow> read_trainings(const CsvReader& file, const Chip& chip, std::span<const Ablation> ablations) {
  std::vector<TrainingRow> rows;
  for (std::size_t i = 0; i < file.size(); ++i) {
    const std::string library = file.text(i, "library").substr(0, file.text(i, "library").find(' '));
    if (file.text(i, "us").empty() ||
        (library != kKernelRows && (library != kCudnnRows || file.text(i, "best") != "true"))) {
      continue;
    }
    const AskedTraining asked = read_training_row(file, i);
    const Training& training = asked.training;
    TrainingRow row{chip.name,
                    describe(training.network) + ", " + std::to_string(training.network.steps) + " steps, input " +
                        std::to_string(training.stack.input),
                    kCudnnRows,
                    {}};
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

Accuracy score(const std::vector<TrainingRow>& rows) {
  return score(comparisons_of(rows, false));
}

Report report(const std::vector<TrainingRow>& rows, std::span<const Ablation> ablations, std::size_t shown_rows) {
  constexpr double kNear = 5;
  Report report;
  const std::vector<AblatedRow> ablated_rows = ablated(rows, std::not_fn(&TrainingRow::is_library));
  if (ablations.size() > 1) {
    return report_worth(ablated_rows, ablations);
  }
  const Accuracy own = score(rows);
  report.json = to_json(own);
  ScoreGroups groups("way");
  for (const bool library : {false, true}) {
    if (const auto comparisons = comparisons_of(rows, library); !comparisons.empty()) {
      groups.add(library ? kCudnnRows : kKernelRows, comparisons);
    }
  }
  const std::map<std::string, double> losses = losses_percent(rows);
  const auto near = std::ranges::count_if(losses, [](const auto& loss) { return loss.second <= kNear; });
  report.text = "Time of a training step, predicted against measured:\n\n" + to_aligned(groups.table) +
                "\nKendall's tau of onchip's rows: " + fixed(own.kendall_tau, 3) + "\nThe pick is within " +
                fixed(kNear, 0) + " % of the quickest way that was measured in " + std::to_string(near) + " of " +
                std::to_string(losses.size()) + " networks\n";
  report.json["ways"] = std::move(groups.json);
  report.json["picks"] = Json::array();
  for (const auto& [network, loss] : losses) {
    report.json["picks"].push_back({{"network", network}, {"loss_percent", rounded(loss)}});
    if (loss > kNear) {
      report.text += "  not of " + network + ": " + fixed(loss, 1) + " %\n";
    }
  }
  report.csv.columns = {"chip", "network", "way", "measured_us", "predicted_us", "low_us", "high_us", "error_percent"};
  if (!ablations.empty()) {
    report.csv.columns.emplace_back("without_us");
    add_ablation(ablated_rows, ablations.front(), report);
  }
  report.json["rows"] = Json::array();
  std::vector<const TrainingRow*> worst;
  for (const TrainingRow& row : rows) {
    const Comparison& of = row.comparison;
    worst.push_back(&row);
    report.csv.rows.push_back({row.chip, row.network, row.way, significant(of.measured, 6),
                               significant(of.predicted, 6), significant(of.low, 6), significant(of.high, 6),
                               significant(of.error_percent(), 4)});
    report.json["rows"].push_back({{"network", row.network},
                                   {"way", row.way},
                                   {"measured_us", rounded(of.measured)},
                                   {"predicted_us", rounded(of.predicted)},
                                   {"interval_us", {rounded(of.low), rounded(of.high)}},
                                   {"error_percent", rounded(of.error_percent())}});
    if (!ablations.empty()) {
      report.csv.rows.back().push_back(significant(row.without.front(), 6));
      report.json["rows"].back()["without_us"] = rounded(row.without.front());
    }
  }
  std::ranges::stable_sort(worst, std::ranges::greater(),
                           [](const TrainingRow* row) { return std::abs(row->comparison.error_percent()); });
  Table shown{{"network", "measured us", "predicted us", "error %", "way"}, {}};
  for (std::size_t i = 0; i < std::min(worst.size(), shown_rows); ++i) {
    const Comparison& of = worst[i]->comparison;
    shown.rows.push_back({worst[i]->network, significant(of.measured, 4), significant(of.predicted, 4),
                          fixed(of.error_percent(), 1), worst[i]->way});
  }
  report.text += "\nWorst first, " + std::to_string(shown.rows.size()) + " of " + std::to_string(rows.size()) +
                 ":\n\n" + to_aligned(shown);
  return report;
}

}  // namespace onchip
