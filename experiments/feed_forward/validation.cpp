// SPDX-License-Identifier: Apache-2.0
#include "experiments/feed_forward/validation.hpp"

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

namespace onchip {

bool has_inferences(const CsvReader& file) {
  return file.has("network") && file.has("wall_ms");
}

void read_inferences(const CsvReader& file, const ChipFile& chip, std::span<const Ablation> ablations,
                     KnownFeedForward& known, Inferences& inferences,
                     const std::function<void(const std::string&)>& say) {
  const char* plan_column = file.has("plan") ? "plan" : "way";  // of the method of 2020 and the libraries beside it
  for (std::size_t i = 0; i < file.size(); ++i) {
    InferenceRow row{{chip.chip.name, file.text(i, "network"), file.text(i, plan_column), {}}};
    if (!file.has("plan") && !row.way.starts_with(StagedPlan::kName)) {
      ++inferences.left_out;
      continue;
    }
    if (file.text(i, "wall_ms").empty() || file.text(i, "correct") != "true") {
      inferences.failed.push_back(row.network + " (" + file.file() + ", row " + std::to_string(i + 1) + ")");
      continue;
    }
    say(std::to_string(i + 1) + " of " + std::to_string(file.size()) + ": " + row.network);
    try {
      const Activity& activity = known.activity(row.network, {.images = file.text(i, "images")});
      row.gpus = file.has("gpus") ? static_cast<int>(file.number(i, "gpus")) : 1;
      const Activity share = largest_share(activity, row.gpus);
      const ExaminedNetwork& network = known.network(row.network);
      const auto plan = parse_feed_forward_plan(row.way);
      const InferencePrice price = price_plan(chip.chip, network, share, plan);
      row.without = predict_without(chip.chip, ablations, [&](const Chip& changed) {
        return 1e-3 * price_plan(changed, network, share, plan).us;
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

namespace {

std::string family_of(const InferenceRow& row) {
  return row.way.substr(0, row.way.find(' '));
}

Columns<InferenceRow> row_columns(bool ablates) {
  using Row = InferenceRow;
  Columns<Row> columns;
  columns.add("chip", "", "that it was measured on", &Row::chip);
  columns.add("network", "", "as it is asked for", &Row::network);
  columns.add("gpus", "", "that shared the images", &Row::gpus);
  columns.add("plan", "", "that ran", &Row::way);
  add_comparison(columns, "ms", "interval_ms/");
  add_error(columns);
  add_inside(columns);
  if (ablates) {
    add_without(columns, "ms");
  }
  return columns;
}

std::vector<std::string> shown_cells(const InferenceRow& row) {
  const Comparison& of = row.comparison;
  return {row.network + (row.gpus > 1 ? ", " + std::to_string(row.gpus) + " GPUs" : ""),
          family_of(row),
          significant(of.measured, 4),
          significant(of.predicted, 4),
          significant(of.low, 4),
          significant(of.high, 4),
          fixed(of.error_percent(), 1),
          of.inside() ? "yes" : "no"};
}

}  // namespace

Report report(const Inferences& inferences, const Accuracy& all, std::span<const Ablation> ablations,
              std::size_t shown_rows) {
  const std::vector<InferenceRow>& rows = inferences.rows;
  if (ablations.size() > 1) {
    return report_worth(scored(rows), ablations);
  }
  std::set<std::string> families;
  std::ranges::transform(rows, std::inserter(families, families.end()), family_of);
  ScoreGroups groups = score_groups("family", families, rows, family_of);
  Report report;
  report.text = "Time of an inference, predicted against measured; nothing was fitted to these rows:\n\n" +
                to_aligned(groups.table);
  report.json = to_json(all);
  report.json["families"] = std::move(groups.json);
  report.json["failed"] = inferences.failed;
  report.json["left_out"] = inferences.left_out;
  add_rows(row_columns(!ablations.empty()), rows, report);
  if (!ablations.empty()) {
    add_ablation(scored(rows), ablations.front(), report);
  }
  for (const std::string& failed : inferences.failed) {
    report.text += "no valid measurement: " + failed + '\n';
  }
  if (inferences.left_out > 0) {
    report.text += std::to_string(inferences.left_out) + " rows are of libraries, which have no price here.\n";
  }
  add_worst(rows, shown_rows, {"network", "family", "measured ms", "predicted ms", "low", "high", "error %", "inside"},
            shown_cells, report);
  return report;
}

}  // namespace onchip
