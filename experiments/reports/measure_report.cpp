// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/measure_report.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace onchip {
namespace {

ColumnValue if_any(double value) {
  return value > 0 ? ColumnValue(value) : ColumnValue();
}

Columns<MeasuredPlan> make_plan_columns() {
  using Row = MeasuredPlan;
  Columns<Row> columns;
  columns.add_all(configuration_table(), &Row::configuration);
  columns.add("chip", "", "whose plans and predictions they are: this GPU's, or another that --chip asks for",
              &Row::chip, "", In::csv);
  const auto if_ran = [](auto get) {
    return
        [get](const Row& row) { return row.has_run() ? to_value(std::invoke(get, row.measurement)) : ColumnValue(); };
  };
  const auto predicted = [](double Prediction::*us) {
    return
        [us](const Row& row) { return row.fits() ? ColumnValue(row.ranked.planned->prediction.*us) : ColumnValue(); };
  };
  columns.add("nnz", "", "non-zeros of the weights", &Row::nnz);
  columns.add("family", "", "whose plan it is", [](const Row& row) { return row.ranked.family; });
  columns.add("plan", "", "as text, which `--plan` takes; JSON: also every field by name", [](const Row& row) {
    return row.fits() && (row.is_kernel() || row.is_timed()) ? ColumnValue(to_json(row.ranked.planned->plan))
                                                             : ColumnValue();
  });
  columns.add("refused_plan", "", "the model's choice, which the compiler spills",
              [](const Row& row) { return row.refused ? to_string(*row.refused) : ""; });
  columns.add("registers", "", "of a thread, as compiled", if_ran(&Measurement::registers));
  columns.add("gather_wavefronts", "", "wavefronts of the gathers of a step, of the busiest SM",
              [](const Row& row) { return row.has_run() ? ColumnValue(row.gather_wavefronts) : ColumnValue(); });
  columns.add("relative_error", "", "against the reference in double precision", if_ran(&Measurement::relative_error));
  columns.add("tolerance", "", "the error that is allowed", if_ran(&Measurement::tolerance));
  columns.add("correct", "", "whether the results are right; of a library, whether it ran",
              [](const Row& row) { return row.library ? row.library->ran() : row.measurement.correct; });
  columns.add("predicted_us", "us", "predicted time of a step", predicted(&Prediction::step_us));
  columns.add("predicted_low_us", "us", "its 95 % interval", predicted(&Prediction::low_us), "predicted_interval_us/0");
  columns.add("predicted_high_us", "us", "its 95 % interval", predicted(&Prediction::high_us),
              "predicted_interval_us/1");
  columns.add_time("step_us", "us", "a step: of a kernel in steady state, of a library whole sequence / steps",
                   &Row::step_us, "", "step_low_us", "step_high_us");
  columns.add("off_by_percent", "%", "by how much the prediction is above the measurement", [](const Row& row) {
    return row.fits() && row.is_timed()
               ? ColumnValue(100 * (row.ranked.planned->prediction.step_us / row.step_us().median - 1))
               : ColumnValue();
  });
  columns.add_time("exchange_us", "us", "with `--floor`: the exchange alone",
                   [](const Row& row) { return row.measurement.exchange_us; });
  columns.add("floor_us", "us", "with `--floor`: that, then conflict-free loads; no step of this plan is below",
              [](const Row& row) { return if_any(row.floor_us()); });
  columns.add_time("sequence_us", "us", "the whole sequence",
                   [](const Row& row) { return row.measurement.sequence_us; });
  columns.add("sequence_step_us", "us", "the same for each of its steps", [](const Row& row) {
    return if_any(row.measurement.sequence_us.median / row.configuration.network.steps);
  });
  columns.add("picked", "", "whether it is the fastest predicted", &Row::chosen);
  columns.add("fastest", "", "whether it is the fastest measured", &Row::fastest);
  columns.add("fingerprint", "", "of the kernel's source", [](const Row& row) { return row.measurement.fingerprint; });
  columns.add("code_fingerprint", "", "of its machine code",
              [](const Row& row) { return row.measurement.code_fingerprint; });
  columns.add("ran", "", "of a library's family: its fastest call",
              [](const Row& row) { return row.library ? row.library->name : ""; });
  columns.add("settings", "", "what that computes",
              [](const Row& row) { return row.library ? row.library->settings : ""; });
  columns.add_to_json("why", "what is said of a family beside others", [](const Row& row) { return row.ranked.why; });
  columns.add("note", "", "why there is no time", &Row::note);
  return columns;
}

// A library's call beside what it is compared with.
struct BaselineRow {
  const Way& way;
  double ours_us;
  bool best;
};

Columns<BaselineRow> baseline_columns() {
  Columns<BaselineRow> columns;
  const auto of_way = [](auto get) {
    return [get](const BaselineRow& row) { return to_value(std::invoke(get, row.way)); };
  };
  columns.add("name", "", "the library, and its call", of_way(&Way::name));
  columns.add_to_json("ran", "whether it has a time", of_way(&Way::ran));
  columns.add("best", "", "the fastest of its library", &BaselineRow::best);
  columns.add_to_json("preparation_s", "seconds to prepare it, or to find that it refuses",
                      of_way(&Way::preparation_s));
  columns.add_time(
      "step_us", "us", "whole sequence / steps", [](const BaselineRow& row) { return row.way.time; }, "", "low",
      "high");
  columns.add("ratio", "", "times the time of a step of ours", [](const BaselineRow& row) {
    return row.way.ran() && row.ours_us > 0 ? ColumnValue(row.way.time.median / row.ours_us) : ColumnValue();
  });
  columns.add("settings", "", "what it computes, and how", of_way(&Way::settings));
  columns.add("note", "", "why it has few samples", of_way(&Way::note));
  columns.add("refusal", "", "why it has no time", of_way(&Way::failure));
  return columns;
}

// As a table from fast to slow, then what failed.
void add_baselines(std::span<const Way> ways, double ours_us, Report& report) {
  const Columns<BaselineRow> columns = baseline_columns();
  std::vector<BaselineRow> rows;
  for (const Way& way : ways) {
    rows.push_back({way, ours_us, is_fastest_of_library(ways, way)});
    report.json["baselines"].push_back(columns.json(rows.back()));
  }
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return std::pair(!ways[i].ran(), ways[i].time.median); });
  const Table table = columns.table(rows);
  Table sorted{table.columns, {}};
  for (const std::size_t i : order) {
    sorted.rows.push_back(table.rows[i]);
  }
  report.text += "\nWhole sequence / steps on both sides, interleaved in one run:\n\n" + to_aligned(sorted);
}

void add_clocks(const StepClocks& clocks, Report& report) {
  report.json["clocks"] = Json::array();
  Table table{{"until", "cycles", "slowest warp"}, {}};
  for (std::size_t i = 0; i < kStepMarks.size(); ++i) {
    report.json["clocks"].push_back({{"until", kStepMarks[i]},
                                     {"mean_cycles", rounded(clocks.mean[i])},
                                     {"slowest_warp_cycles", rounded(clocks.slowest[i])}});
    table.rows.push_back({std::string(kStepMarks[i]), fixed(clocks.mean[i], 0), fixed(clocks.slowest[i], 0)});
  }
  report.text += '\n' + to_aligned(table);
}

Report begin_report(const ChipFile& chip, const MeasuredPlans& measured, const Manifest& manifest) {
  const Recurrent& network = measured.plans.front().configuration.network;
  return {.text = measured_on(describe(network), manifest),
          .csv = measured_plan_columns().table(measured.plans),
          .json = {{"chip", chip.chip.name}, {"device", manifest.gpu}, {"network", to_json(network)}}};
}

}  // namespace

const Columns<MeasuredPlan>& measured_plan_columns() {
  static const Columns<MeasuredPlan> kColumns = make_plan_columns();
  return kColumns;
}

ColumnGroup baseline_column_group() {
  ColumnGroup group = baseline_columns().group("baselines of recurrent networks");
  std::erase_if(group.columns, [](const ColumnInfo& column) { return column.in == In::csv; });
  std::ranges::for_each(group.columns, [](ColumnInfo& column) { column.in = In::json; });  // CSV has no rows of theirs
  return group;
}

std::string correctness_text(const Correctness& correctness) {
  return (correctness.correct ? "yes" : "NO") + (": relative error " + significant(correctness.relative_error, 3)) +
         ", at most " + significant(correctness.tolerance, 3) + " allowed";
}

std::string measured_on(const std::string& what, const Manifest& manifest) {
  return what + " on " + manifest.gpu + ", driver " + manifest.driver + ", " + manifest.compiler + "\n\n";
}

Report plan_report(const ChipFile& chip, const MeasuredPlans& measured, const Manifest& manifest) {
  const MeasuredPlan& plan = measured.plans.front();
  Report report = begin_report(chip, measured, manifest);
  report.json.update(measured_plan_columns().json(plan));
  report.text += measured_plan_columns().list(plan);
  if (plan.measurement.clocks) {
    add_clocks(*plan.measurement.clocks, report);
  }
  if (!measured.libraries.empty()) {
    add_baselines(measured.libraries, plan.measurement.sequence_us.median / plan.configuration.network.steps, report);
  }
  return report;
}

Report families_report(const ChipFile& chip, const MeasuredPlans& measured, const Manifest& manifest) {
  Report report = begin_report(chip, measured, manifest);
  report.json["families"] = Json::array();
  std::string plans;
  for (const MeasuredPlan& plan : measured.plans) {
    report.json["families"].push_back(measured_plan_columns().json(plan));
    plans += plan.is_kernel() && plan.fits() ? to_string(plan.ranked.planned->plan) + '\n' : "";
  }
  report.text +=
      to_aligned(measured_plan_columns().table(
          measured.plans, {"family", "predicted_us", "step_us", "step_low_us", "step_high_us", "off_by_percent",
                           "picked", "fastest", "ran", "note"})) +
      "\nInterleaved in one run. Kernels: steady state, with checked results; libraries: whole sequence / steps.\n" +
      plans;
  return report;
}

}  // namespace onchip
