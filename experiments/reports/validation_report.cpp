// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/validation_report.hpp"

#include "experiments/command/configuration_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

namespace onchip {

bool is_kernel(const ValidationRow& row) {
  return is_on_chip(*row.configuration.plan);
}

std::vector<Comparison> comparisons_of(const ValidationData& data,
                                       const std::function<bool(const ValidationRow&)>& wanted) {
  std::vector<Comparison> comparisons;
  for (const ValidationRow& row : data.rows) {
    if (wanted(row)) {
      comparisons.push_back(row.comparison);
    }
  }
  return comparisons;
}

Scores score_rows(const ValidationData& data) {
  const bool any_kernel = std::ranges::any_of(data.rows, is_kernel);
  const auto counts = [&](const ValidationRow& row) { return !any_kernel || is_kernel(row); };
  Scores scores{score(comparisons_of(data, counts)), {}, {}};
  for (const bool in_sample : {true, false}) {
    const auto of_kind =
        comparisons_of(data, [&](const ValidationRow& row) { return counts(row) && row.in_sample == in_sample; });
    if (!of_kind.empty()) {
      (in_sample ? scores.in_sample : scores.held_out) = score(of_kind);
    }
  }
  return scores;
}

Json to_json(const Accuracy& accuracy) {
  return {{"points", accuracy.points},
          {"mape_percent", rounded(accuracy.mape_percent)},
          {"median_ape_percent", rounded(accuracy.median_ape_percent)},
          {"p90_percent", rounded(accuracy.p90_percent)},
          {"max_percent", rounded(accuracy.max_percent)},
          {"bias", rounded(accuracy.bias)},
          {"kendall_tau", rounded(accuracy.kendall_tau)},
          {"coverage_percent", rounded(accuracy.coverage_percent)}};
}

void ScoreGroups::add(std::string_view name, const std::vector<Comparison>& comparisons) {
  if (comparisons.empty()) {
    return;
  }
  const Accuracy accuracy = score(comparisons);
  json.push_back({{key, name},
                  {"points", accuracy.points},
                  {"mape_percent", rounded(accuracy.mape_percent)},
                  {"max_percent", rounded(accuracy.max_percent)},
                  {"bias", rounded(accuracy.bias)},
                  {"coverage_percent", rounded(accuracy.coverage_percent)}});
  table.rows.push_back({std::string(name), std::to_string(accuracy.points), fixed(accuracy.mape_percent, 1),
                        fixed(accuracy.max_percent, 1), fixed(accuracy.bias, 3), fixed(accuracy.coverage_percent, 0)});
}

namespace {

// In-sample and held out apart; there is no sum of the two to be read.
void add_scores(const Scores& scores, Report& report) {
  Table table{{"rows", "points", "MAPE %", "median %", "p90 %", "max %", "bias", "Kendall tau", "coverage %"}, {}};
  report.json["scores"] = Json::array();
  for (const auto& [kind, of_kind] :
       {std::pair{"in-sample", &scores.in_sample}, std::pair{"held out", &scores.held_out}}) {
    if (!*of_kind) {
      continue;
    }
    const Accuracy& accuracy = **of_kind;
    table.rows.push_back({kind, std::to_string(accuracy.points), fixed(accuracy.mape_percent, 1),
                          fixed(accuracy.median_ape_percent, 1), fixed(accuracy.p90_percent, 1),
                          fixed(accuracy.max_percent, 1), fixed(accuracy.bias, 3), fixed(accuracy.kendall_tau, 3),
                          fixed(accuracy.coverage_percent, 0)});
    Json json = to_json(accuracy);
    json["in_sample"] = of_kind == &scores.in_sample;
    report.json["scores"].push_back(std::move(json));
  }
  report.text = "Step time, predicted against measured:\n\n" + to_aligned(table);
}

// Of each chip, where rows are of several.
void add_chips(const ValidationData& data, Report& report) {
  std::set<std::string> chips;
  for (const ValidationRow& row : data.rows) {
    chips.insert(row.chip);
  }
  ScoreGroups groups("chip");
  for (const std::string& chip : chips) {
    groups.add(chip,
               comparisons_of(data, [&](const ValidationRow& row) { return row.chip == chip && is_kernel(row); }));
  }
  if (groups.table.rows.size() > 1) {
    report.text += "\nBy chip:\n\n" + to_aligned(groups.table);
  }
  report.json["chips"] = std::move(groups.json);
}

// Of each family, where there are several, and of the choice between them where networks were measured with several.
void add_families(const ValidationData& data, Report& report) {
  ScoreGroups groups("family");
  for (const FamilyInfo& family : families()) {
    groups.add(family.name, comparisons_of(data, [&](const ValidationRow& row) {
                 return family_name(*row.configuration.plan) == family.name;
               }));
  }
  std::vector<Choice> choices;
  for (const ValidationRow& row : data.rows) {
    std::string of = row.chip;
    for (const std::string& cell : configuration_cells(row.configuration)) {
      of += ' ' + cell;
    }
    choices.push_back(
        {of, std::string(family_name(*row.configuration.plan)), row.comparison.measured, row.comparison.predicted});
  }
  const Picks picks = score_picks(choices);
  report.json["families"] = std::move(groups.json);
  if (groups.table.rows.size() > 1) {
    report.text +=
        "\nBy family" +
        std::string(std::ranges::all_of(data.rows, is_kernel) ? "" : "; the libraries' are not in the sum above") +
        ":\n\n" + to_aligned(groups.table);
  }
  if (picks.choices > 0) {
    report.json["picks"] = {{"networks", picks.choices},
                            {"best", picks.best},
                            {"best_percent", rounded(picks.best_percent())},
                            {"worst_loss_percent", rounded(picks.worst_loss_percent)},
                            {"worst", picks.worst}};
    report.text += "\nThe pick is the measured best of " + std::to_string(picks.best) + " in " +
                   std::to_string(picks.choices) + " networks (" + fixed(picks.best_percent(), 1) + " %)";
    report.text += picks.worst.empty() ? ".\n"
                                       : "; at worst it takes " + fixed(picks.worst_loss_percent, 1) +
                                             " % longer than the best: " + picks.worst + ".\n";
  }
  if (data.left_out > 0) {
    report.json["left_out"] = data.left_out;
    report.text += std::to_string(data.left_out) + " rows are of families that cannot run the network.\n";
  }
}

// What today's compiler makes of the rows' plans, beside what ran.
void add_machine_code(const ValidationData& data, Report& report) {
  std::array<std::size_t, kCodeAnswers.size()> counts{};
  std::size_t no_manifest = 0;
  Json differing = Json::array();
  std::string list;
  for (const ValidationRow& row : data.rows) {
    if (!is_kernel(row)) {
      continue;
    }
    if (!row.machine_code) {
      ++no_manifest;
      continue;
    }
    ++counts[static_cast<std::size_t>(*row.machine_code)];
    if (*row.machine_code == CodeAnswer::differs) {
      const std::string which =
          row.file + ": " + describe(row.configuration.network) + ": " + to_string(*row.configuration.plan);
      differing.push_back(which);
      list += "another machine code than what ran: " + which + '\n';
    }
  }
  const auto of = [&](CodeAnswer answer) { return counts[static_cast<std::size_t>(answer)]; };
  const std::size_t not_recorded = of(CodeAnswer::recorded) + of(CodeAnswer::unknown);
  report.json["machine_code"] = {{"same", of(CodeAnswer::same)},     {"differs", of(CodeAnswer::differs)},
                                 {"not_recorded", not_recorded},     {"other_compiler", of(CodeAnswer::other_compiler)},
                                 {"failed", of(CodeAnswer::failed)}, {"no_manifest", no_manifest},
                                 {"differing", std::move(differing)}};
  report.text += "Machine code: of " + std::to_string(of(CodeAnswer::same)) + " rows what ran, of " +
                 std::to_string(of(CodeAnswer::differs)) + " another; not compared: " + std::to_string(not_recorded) +
                 " without a fingerprint of it, " + std::to_string(of(CodeAnswer::other_compiler)) +
                 " of another compiler, " + std::to_string(of(CodeAnswer::failed)) + " that do not compile, " +
                 std::to_string(no_manifest) + " without a manifest\n" + list;
}

void add_rows(const ValidationData& data, Report& report) {
  const bool ablates = !data.ablations.empty();
  report.json["rows"] = Json::array();
  report.csv.columns = configuration_columns();
  report.csv.columns.insert(report.csv.columns.begin(), "chip");
  for (const char* column :
       {"plan", "measured_us", "predicted_us", "low_us", "high_us", "error_percent", "inside", "stale", "in_sample"}) {
    report.csv.columns.emplace_back(column);
  }
  if (data.compares_code) {
    report.csv.columns.emplace_back("machine_code");
  }
  if (ablates) {
    report.csv.columns.emplace_back("without_us");
  }
  for (const ValidationRow& row : data.rows) {
    const Comparison& comparison = row.comparison;
    const std::string plan = to_string(*row.configuration.plan);
    Json json = to_json(row.configuration.network);
    json["chip"] = row.chip;
    json["mask"] = mask_name(row.configuration);
    json["seed"] = row.configuration.seed;
    report.json["rows"].push_back({{"configuration", std::move(json)},
                                   {"plan", plan},
                                   {"measured_us", rounded(comparison.measured)},
                                   {"predicted_us", rounded(comparison.predicted)},
                                   {"low_us", rounded(comparison.low)},
                                   {"high_us", rounded(comparison.high)},
                                   {"error_percent", rounded(comparison.error_percent())},
                                   {"inside", comparison.inside()},
                                   {"stale", row.stale},
                                   {"in_sample", row.in_sample}});
    std::vector<std::string> cells = configuration_cells(row.configuration);
    cells.insert(cells.begin(), row.chip);
    cells.insert(cells.end(), {plan, significant(comparison.measured, 6), significant(comparison.predicted, 6),
                               significant(comparison.low, 6), significant(comparison.high, 6),
                               significant(comparison.error_percent(), 4), truth(comparison.inside()), truth(row.stale),
                               truth(row.in_sample)});
    if (data.compares_code) {
      const std::string answer(row.machine_code ? name(*row.machine_code) : "");
      report.json["rows"].back()["machine_code"] = answer;
      cells.push_back(answer);
    }
    if (ablates) {
      report.json["rows"].back()["without_us"] = rounded(row.without[0]);
      cells.push_back(significant(row.without[0], 6));
    }
    report.csv.rows.push_back(std::move(cells));
  }
}

Table worst_rows(const ValidationData& data, std::size_t shown_rows) {
  std::vector<const ValidationRow*> worst;
  for (const ValidationRow& row : data.rows) {
    worst.push_back(&row);
  }
  std::ranges::stable_sort(worst, std::ranges::greater(),
                           [](const ValidationRow* row) { return std::abs(row->comparison.error_percent()); });
  Table rows{{"configuration", "mask", "measured us", "predicted us", "low", "high", "error %", "inside", ""}, {}};
  for (const ValidationRow* row : worst) {
    if (rows.rows.size() == shown_rows) {
      break;
    }
    const Comparison& comparison = row->comparison;
    rows.rows.push_back({describe(row->configuration.network) + " on " + row->chip,
                         std::string(mask_name(row->configuration)), fixed(comparison.measured, 3),
                         fixed(comparison.predicted, 3), fixed(comparison.low, 3), fixed(comparison.high, 3),
                         fixed(comparison.error_percent(), 1), comparison.inside() ? "yes" : "no",
                         row->stale ? "stale" : ""});
  }
  return rows;
}

}  // namespace

Report report(const ValidationData& data, const Scores& scores, std::size_t shown_rows) {
  const auto stale = static_cast<std::size_t>(std::ranges::count(data.rows, true, &ValidationRow::stale));
  Report report;
  report.json = to_json(scores.all);
  report.json["in_sample"] = scores.in_sample && scores.held_out ? Json(nullptr) : Json(scores.in_sample.has_value());
  add_scores(scores, report);
  report.json["stale"] = stale;
  report.json["stale_unknown"] = data.unknown;
  report.json["failed"] = data.failed;
  add_rows(data, report);
  if (!data.ablations.empty()) {
    add_ablation(ablated(data.rows, is_kernel), data.ablations.front(), report);
  }
  add_chips(data, report);
  add_families(data, report);
  if (data.not_simulated > 0) {
    report.json["not_simulated"] = data.not_simulated;
    report.text += std::to_string(data.not_simulated) + " rows are of plans that the simulator does not replay.\n";
  }
  for (const std::string& failed : data.failed) {
    report.text += "no valid measurement: " + failed + '\n';
  }
  if (stale > 0) {
    report.text += std::to_string(stale) + " rows are stale: their kernel has changed since they were measured\n";
  }
  if (data.compares_code) {
    add_machine_code(data, report);
  }
  for (const std::string& unknown : data.unknown) {
    report.text += "whether rows are stale is unknown: " + unknown + '\n';
  }
  const Table rows = worst_rows(data, shown_rows);
  report.text += "\nWorst first, " + std::to_string(rows.rows.size()) + " of " + std::to_string(data.rows.size()) +
                 ":\n\n" + to_aligned(rows);
  return report;
}

Report report_worth(const ValidationData& data) {
  return report_worth(ablated(data.rows, is_kernel), data.ablations);
}

}  // namespace onchip
