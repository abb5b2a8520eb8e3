// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/measure_report.hpp"

#include <algorithm>

namespace onchip {
namespace {

// What no kernel with this plan's exchange gets below.
double floor_us(const MeasuredNetwork& result) {
  return result.measurement.exchange_us.median + result.conflict_free_us;
}

Json to_json(const Timing& timing) {
  return {{"median", rounded(timing.median)},
          {"low", rounded(timing.low)},
          {"high", rounded(timing.high)},
          {"samples", timing.samples}};
}

std::string timing_text(const Timing& timing) {
  return fixed(timing.median, 3) + " us (95 % of " + std::to_string(timing.samples) + ": " + fixed(timing.low, 3) +
         " to " + fixed(timing.high, 3) + ")";
}

// The fastest of each library, then all from fast to slow, then those that refused.
std::string baselines_text(std::vector<BaselineResult> baselines, double our_step_us) {
  std::stable_sort(baselines.begin(), baselines.end(), [](const BaselineResult& a, const BaselineResult& b) {
    return a.ran != b.ran ? a.ran : a.step_us.median < b.step_us.median;
  });
  Table fastest{{"fastest of", "us per step", "times ours", "baseline"}, {}};
  Table all{{"baseline", "us per step", "low", "high", "times ours", "note"}, {}};
  for (const BaselineResult& baseline : baselines) {
    if (!baseline.ran) {
      all.rows.push_back({baseline.name, "", "", "", "", "refused: " + baseline.refusal});
      continue;
    }
    const std::string median = fixed(baseline.step_us.median, 3);
    const std::string ratio = fixed(baseline.step_us.median / our_step_us, 2);
    all.rows.push_back({baseline.name, median, fixed(baseline.step_us.low, 3), fixed(baseline.step_us.high, 3), ratio,
                        baseline.settings + (baseline.note.empty() ? "" : "; " + baseline.note)});
    const std::string library = baseline.name.substr(0, baseline.name.find(' '));
    if (std::none_of(fastest.rows.begin(), fastest.rows.end(), [&](const auto& row) { return row[0] == library; })) {
      fastest.rows.push_back({library, median, ratio, baseline.name});
    }
  }
  return (fastest.rows.empty() ? "" : to_aligned(fastest) + '\n') + to_aligned(all);
}

void add_clocks(const StepClocks& clocks, Report& report) {
  report.json["clocks"] = Json::array();
  report.text += "\nuntil         cycles  slowest warp\n";
  for (std::size_t i = 0; i < kStepMarks.size(); ++i) {
    report.json["clocks"].push_back({{"until", kStepMarks[i]},
                                     {"mean_cycles", rounded(clocks.mean[i])},
                                     {"slowest_warp_cycles", rounded(clocks.slowest[i])}});
    const std::string cycles = fixed(clocks.mean[i], 0), slowest = fixed(clocks.slowest[i], 0);
    report.text += std::string(kStepMarks[i]) + std::string(20 - kStepMarks[i].size() - cycles.size(), ' ') + cycles +
                   std::string(14 - slowest.size(), ' ') + slowest + '\n';
  }
}

}  // namespace

std::vector<std::string> result_columns() {
  std::vector<std::string> columns = configuration_columns();
  for (const char* column : {"nnz", "plan", "registers", "gather_wavefronts", "relative_error", "tolerance", "correct",
                             "step_us", "step_low_us", "step_high_us", "exchange_us", "floor_us", "sequence_us",
                             "samples", "fingerprint", "code_fingerprint"}) {
    columns.emplace_back(column);
  }
  return columns;
}

std::vector<std::string> result_cells(const Configuration& configuration, const MeasuredNetwork& result) {
  const Measurement& m = result.measurement;
  const auto time = [&](double us) { return m.correct ? significant(us, 6) : ""; };
  const bool has_floor = m.exchange_us.samples > 0;
  std::vector<std::string> cells = configuration_cells(configuration);
  cells.insert(cells.end(), {std::to_string(result.nnz), to_string(result.planned.plan), std::to_string(m.registers),
                             std::to_string(result.gather_wavefronts), significant(m.relative_error, 4),
                             significant(m.tolerance, 4), truth(m.correct), time(m.step_us.median), time(m.step_us.low),
                             time(m.step_us.high), has_floor ? time(m.exchange_us.median) : "",
                             has_floor ? time(floor_us(result)) : "", time(m.sequence_us.median),
                             m.correct ? std::to_string(m.step_us.samples) : "0", m.fingerprint, m.code_fingerprint});
  return cells;
}

std::vector<std::string> failed_cells(const Configuration& configuration, const std::string& plan) {
  std::vector<std::string> cells = configuration_cells(configuration);
  cells.insert(cells.end(), {"", plan, "", "", "", "", truth(false), "", "", "", "", "", "", "0", "", ""});
  return cells;
}

std::string correctness_text(const Correctness& correctness) {
  return (correctness.correct ? "yes" : "NO") + (": relative error " + significant(correctness.relative_error, 3)) +
         ", at most " + significant(correctness.tolerance, 3) + " allowed";
}

Report report_result(const Case& asked, const MeasuredNetwork& result, const Manifest& manifest) {
  const Configuration& configuration = asked.configuration;
  const Measurement& m = result.measurement;
  const Recurrent& network = configuration.network;
  const Prediction& prediction = result.planned.prediction;
  const double whole_us = m.sequence_us.median / network.steps;
  Report report;
  report.csv = {result_columns(), {result_cells(configuration, result)}};
  report.json = {{"chip", asked.chip},
                 {"device", manifest.gpu},
                 {"network", to_json(network)},
                 {"plan", to_json(result.planned.plan)},
                 {"nnz", result.nnz},
                 {"registers", m.registers},
                 {"gather_wavefronts", result.gather_wavefronts},
                 {"relative_error", rounded(m.relative_error)},
                 {"tolerance", rounded(m.tolerance)},
                 {"correct", m.correct},
                 {"fingerprint", m.fingerprint},
                 {"code_fingerprint", m.code_fingerprint}};
  if (asked.planned.refused) {
    report.json["refused_plan"] = to_string(*asked.planned.refused);
  }
  const std::string refused =
      asked.planned.refused ? "\nrefused    " + to_string(*asked.planned.refused) + ": the compiler spills it" : "";
  report.text = describe(network) + " on " + manifest.gpu + ", driver " + manifest.driver + ", " + manifest.compiler +
                "\n\nplan       " + to_string(result.planned.plan) + refused + "\nregisters  " +
                std::to_string(m.registers) + " per thread, no spill\ncorrect    " +
                correctness_text({m.relative_error, m.tolerance, m.correct}) + '\n';
  if (!m.correct) {
    return report;
  }
  report.json["step_us"] = to_json(m.step_us);
  const bool has_floor = m.exchange_us.samples > 0;
  if (has_floor) {
    report.json["exchange_us"] = to_json(m.exchange_us);
    report.json["floor_us"] = rounded(floor_us(result));
  }
  report.json["sequence_us"] = to_json(m.sequence_us);
  report.json["sequence_step_us"] = rounded(whole_us);
  report.json["predicted_us"] = rounded(prediction.step_us);
  report.json["predicted_interval_us"] = {rounded(prediction.low_us), rounded(prediction.high_us)};
  report.text += "step       " + timing_text(m.step_us) + ", steady state\n           " + fixed(whole_us, 3) +
                 " us, whole sequence of " + std::to_string(network.steps) + " steps\n";
  if (has_floor) {
    report.text += "in turn    " + fixed(floor_us(result), 3) +
                   " us: its exchange alone, measured, then conflict-free loads; the step takes " +
                   fixed(m.step_us.median / floor_us(result), 2) + " times that\n";
  }
  report.text += "model      " + time_text(prediction) + ", off by " +
                 fixed(100 * (prediction.step_us / m.step_us.median - 1), 1) + " %\n";
  if (m.clocks) {
    add_clocks(*m.clocks, report);
  }
  if (m.baselines.empty()) {
    return report;
  }
  report.json["baselines"] = Json::array();
  for (const BaselineResult& baseline : m.baselines) {
    Json json{{"name", baseline.name}, {"ran", baseline.ran}, {"preparation_s", rounded(baseline.preparation_s, 3)}};
    if (baseline.ran) {
      json["step_us"] = to_json(baseline.step_us);
      json["ratio"] = rounded(baseline.step_us.median / whole_us);
      json["settings"] = baseline.settings;
      if (!baseline.note.empty()) {
        json["note"] = baseline.note;
      }
    } else {
      json["refusal"] = baseline.refusal;
    }
    report.json["baselines"].push_back(std::move(json));
  }
  report.text +=
      "\nWhole sequence / steps on both sides, in turns in one run:\n\n" + baselines_text(m.baselines, whole_us);
  return report;
}

}  // namespace onchip
