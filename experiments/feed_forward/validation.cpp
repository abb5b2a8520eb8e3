// SPDX-License-Identifier: Apache-2.0
#include "experiments/feed_forward/validation.hpp"

#include "experiments/reports/recurrent_report.hpp"
#include "experiments/reports/validation_report.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace onchip {
namespace {

std::string family_of(const std::string& plan) {
  return plan.substr(0, plan.find(' '));
}

}  // namespace

bool has_inferences(const CsvReader& file) {
  return file.has("network") && file.has("wall_ms");
}

void read_inferences(const CsvReader& file, const ChipFile& chip, std::span<const Ablation> ablations,
                     KnownFeedForward& known, Inferences& inferences,
                     const std::function<void(const std::string&)>& say) {
  const char* plan_column = file.has("plan") ? "plan" : "way";  // of the method of 2020 and the libraries beside it
  for (std::size_t i = 0; i < file.size(); ++i) {
    InferenceRow row{chip.chip.name, file.text(i, "network"), file.text(i, plan_column), 1, {}};
    if (!file.has("plan") && !row.plan.starts_with(StagedPlan::kName)) {
      ++inferences.left_out;
      continue;
    }
    if (file.text(i, "wall_ms").empty() || file.text(i, "correct") != "true") {
      inferences.failed.push_back(row.network + " (" + file.file() + ", row " + std::to_string(i + 1) + ")");
      continue;
    }
    say(std::to_string(i + 1) + " of " + std::to_string(file.size()) + ": " + row.network);
    try {
      const auto activity = known.activity(row.network, {.images = file.text(i, "images")});
      row.gpus = file.has("gpus") ? static_cast<int>(file.number(i, "gpus")) : 1;
      const Activity share = largest_share(*activity, row.gpus);
      const auto network = known.network(row.network);
      const auto plan = parse_feed_forward_plan(row.plan);
      const InferencePrice price = price_plan(chip.chip, *network, share, plan);
      row.without = predict_without(chip.chip, ablations, [&](const Chip& changed) {
        return 1e-3 * price_plan(changed, *network, share, plan).us;
      });
      row.comparison = {file.number(i, "wall_ms"), 1e-3 * price.us, 1e-3 * price.low_us, 1e-3 * price.high_us};
    } catch (const InputError& error) {
      file.fail(i, error.what());
    }
    if (!(row.comparison.measured > 0 && std::isfinite(row.comparison.measured))) {
      file.fail(i, "column 'wall_ms': found " + in_quotes(file.text(i, "wall_ms")) + ": expected a time above 0");
    }
    inferences.rows.push_back(std::move(row));
  }
}

Report report(const Inferences& inferences, const Accuracy& all, std::span<const Ablation> ablations,
              std::size_t shown_rows) {
  Report report;
  const std::vector<AblatedRow> ablated_rows = ablated(inferences.rows, [](const InferenceRow&) { return true; });
  if (ablations.size() > 1) {
    return report_worth(ablated_rows, ablations);
  }
  report.json = to_json(all);
  std::set<std::string> families;
  std::vector<const InferenceRow*> worst;
  for (const InferenceRow& row : inferences.rows) {
    families.insert(family_of(row.plan));
    worst.push_back(&row);
  }
  ScoreGroups groups("family");
  for (const std::string& family : families) {
    std::vector<Comparison> of_family;
    for (const InferenceRow& row : inferences.rows) {
      if (family_of(row.plan) == family) {
        of_family.push_back(row.comparison);
      }
    }
    groups.add(family, of_family);
  }
  report.text = "Time of an inference, predicted against measured; nothing was fitted to these rows:\n\n" +
                to_aligned(groups.table);
  report.json["families"] = std::move(groups.json);
  report.json["failed"] = inferences.failed;
  report.json["left_out"] = inferences.left_out;
  report.json["rows"] = Json::array();
  report.csv.columns = {"chip",         "network", "gpus",    "plan",          "measured_ms",
                        "predicted_ms", "low_ms",  "high_ms", "error_percent", "inside"};
  if (!ablations.empty()) {
    report.csv.columns.emplace_back("without_ms");
    add_ablation(ablated_rows, ablations.front(), report);
  }
  for (const std::string& failed : inferences.failed) {
    report.text += "no valid measurement: " + failed + '\n';
  }
  if (inferences.left_out > 0) {
    report.text += std::to_string(inferences.left_out) + " rows are of libraries, which have no price here.\n";
  }
  std::ranges::stable_sort(worst, std::ranges::greater(),
                           [](const InferenceRow* row) { return std::abs(row->comparison.error_percent()); });
  Table shown{{"network", "family", "measured ms", "predicted ms", "low", "high", "error %", "inside"}, {}};
  for (const InferenceRow& row : inferences.rows) {
    const Comparison& of = row.comparison;
    report.csv.rows.push_back({row.chip, row.network, std::to_string(row.gpus), row.plan, significant(of.measured, 6),
                               significant(of.predicted, 6), significant(of.low, 6), significant(of.high, 6),
                               significant(of.error_percent(), 4), truth(of.inside())});
    report.json["rows"].push_back({{"chip", row.chip},
                                   {"network", row.network},
                                   {"gpus", row.gpus},
                                   {"plan", row.plan},
                                   {"measured_ms", rounded(of.measured)},
                                   {"predicted_ms", rounded(of.predicted)},
                                   {"interval_ms", {rounded(of.low), rounded(of.high)}},
                                   {"error_percent", rounded(of.error_percent())},
                                   {"inside", of.inside()}});
    if (!ablations.empty()) {
      report.csv.rows.back().push_back(significant(row.without.front(), 6));
      report.json["rows"].back()["without_ms"] = rounded(row.without.front());
    }
  }
  for (const InferenceRow* row : worst) {
    if (shown.rows.size() == shown_rows) {
      break;
    }
    const Comparison& of = row->comparison;
    shown.rows.push_back({row->network + (row->gpus > 1 ? ", " + std::to_string(row->gpus) + " GPUs" : ""),
                          family_of(row->plan), significant(of.measured, 4), significant(of.predicted, 4),
                          significant(of.low, 4), significant(of.high, 4), fixed(of.error_percent(), 1),
                          of.inside() ? "yes" : "no"});
  }
  report.text += "\nWorst first, " + std::to_string(shown.rows.size()) + " of " +
                 std::to_string(inferences.rows.size()) + ":\n\n" + to_aligned(shown);
  return report;
}

}  // namespace onchip
