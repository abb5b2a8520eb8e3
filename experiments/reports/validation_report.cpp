// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/validation_report.hpp"

#include "experiments/command/configuration_rows.hpp"
#include "model/answer/case_columns.hpp"
#include "model/answer/json.hpp"
#include "model/base/error.hpp"
#include "model/base/joined.hpp"
#include "model/base/table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {

// ---- terms left out -------------------------------------------------------------------------------------------------

namespace {

Chip without(Chip chip, const Ablation& ablation) {
  for (const CostTerm* term : ablation.terms) {
    chip.cost.set(term->cost, term->neutral);
  }
  return chip;
}

// Mean errors in per cent with and without the terms of an ablation.
struct Worth {
  int points = 0;
  double with = 0, without = 0;
  double difference() const { return without - with; }
};

Worth worth(std::span<const ScoredRow> rows, std::size_t ablation,
            const std::function<bool(const ScoredRow&)>& wanted) {
  std::vector<Comparison> with, without;
  for (const ScoredRow& row : rows) {
    if (wanted(row)) {
      with.push_back(row.comparison);
      without.push_back({row.comparison.measured, row.without[ablation], 0, 0});
    }
  }
  if (with.empty()) {
    return {};
  }
  return {static_cast<int>(with.size()), mape_percent(with), mape_percent(without)};
}

// Over the rows whose prediction the ablation changes, libraries' included.
Worth worth_to_users(std::span<const ScoredRow> rows, std::size_t ablation) {
  return worth(rows, ablation, [&](const ScoredRow& row) {
    const double rounding = 1e-9 * row.comparison.predicted;
    return std::abs(row.without[ablation] - row.comparison.predicted) > rounding;
  });
}

Json to_json(const Worth& worth) {
  Json json{{"points", worth.points}};
  for (const auto& [key, value] :
       {std::pair{"mape_percent", worth.with}, std::pair{"mape_without_percent", worth.without},
        std::pair{"difference_percent", worth.difference()}}) {
    json[key] = worth.points > 0 ? Json(rounded(value)) : Json(nullptr);
  }
  return json;
}

std::vector<std::string> cells(const Worth& worth, int digits) {
  if (worth.points == 0) {
    return {"0", "", "", ""};
  }
  return {std::to_string(worth.points), fixed(worth.with, digits), fixed(worth.without, digits),
          fixed(worth.difference(), digits)};
}

}  // namespace

std::vector<std::string> Ablation::names() const {
  std::vector<std::string> names;
  std::ranges::transform(terms, std::back_inserter(names),
                         [](const CostTerm* term) { return std::string(term->name); });
  return names;
}

std::vector<Ablation> read_ablations(std::span<const std::string> names) {
  std::vector<Ablation> ablations;
  if (std::ranges::find(names, kEveryTerm) != names.end()) {
    if (names.size() > 1) {
      throw InputError("--without all: expected no other --without");
    }
    for (const CostTerm& term : kCostTerms) {
      ablations.push_back({{&term}});
    }
    return ablations;
  }
  for (const std::string& name : names) {
    const auto term = std::ranges::find(kCostTerms, name, &CostTerm::name);
    if (term == kCostTerms.end()) {
      std::vector<std::string_view> known{kEveryTerm};
      std::ranges::transform(kCostTerms, std::back_inserter(known), &CostTerm::name);
      throw InputError("--without: unknown cost term '" + name + "'" + did_you_mean(name, known));
    }
    if (ablations.empty()) {
      ablations.emplace_back();
    }
    ablations.front().terms.push_back(term);
  }
  return ablations;
}

std::vector<double> predict_without(const Chip& chip, std::span<const Ablation> ablations,
                                    const std::function<double(const Chip&)>& predict) {
  std::vector<double> predicted;
  for (const Ablation& ablation : ablations) {
    predicted.push_back(predict(without(chip, ablation)));
  }
  return predicted;
}

void add_ablation(std::span<const ScoredRow> rows, const Ablation& ablation, Report& report) {
  const bool any_kernel = !std::ranges::all_of(rows, &ScoredRow::is_library);
  const Worth of_all = worth(rows, 0, [&](const ScoredRow& row) { return !any_kernel || !row.is_library; });
  const Worth of_users = worth_to_users(rows, 0);
  report.json["without"] = {{"terms", ablation.names()}, {"rows", to_json(of_all)}, {"used", to_json(of_users)}};
  Table table{{"rows", "points", "MAPE %", "without %", "difference"}, {}};
  for (const auto& [name, worth] :
       {std::pair{any_kernel ? "all kernels" : "all", &of_all}, {"that use it", &of_users}}) {
    std::vector<std::string> row = cells(*worth, 2);
    row.insert(row.begin(), name);
    table.rows.push_back(std::move(row));
  }
  report.text += "\nWithout " + joined(ablation.names()) + ":\n\n" + to_aligned(table);
}

Report report_worth(std::span<const ScoredRow> rows, std::span<const Ablation> ablations) {
  std::vector<std::pair<std::size_t, Worth>> lines;
  for (std::size_t i = 0; i < ablations.size(); ++i) {
    lines.emplace_back(i, worth_to_users(rows, i));
  }
  std::ranges::stable_sort(lines, std::ranges::greater(), [](const auto& line) {
    return std::pair(line.second.points > 0, line.second.difference());
  });
  Report report;
  report.json = {{"terms", Json::array()}};
  report.csv.columns = {"term", "points", "mape_percent", "mape_without_percent", "difference_percent"};
  Table shown{{"term", "points", "MAPE %", "without %", "difference"}, {}};
  for (const auto& [i, worth] : lines) {
    const std::string term = ablations[i].names().front();
    Json json{{"term", term}};
    json.update(to_json(worth));
    report.json["terms"].push_back(std::move(json));
    for (auto& [table, digits] : {std::pair{&report.csv, 4}, std::pair{&shown, 2}}) {
      std::vector<std::string> row = cells(worth, digits);
      row.insert(row.begin(), term);
      table->rows.push_back(std::move(row));
    }
  }
  report.text = "Mean errors over the rows that use a term, with it and without:\n\n" + to_aligned(shown);
  return report;
}

// ---- scores ---------------------------------------------------------------------------------------------------------

Scores score_rows(const std::vector<ValidationRow>& rows) {
  const bool only_libraries = std::ranges::all_of(rows, &ValidationRow::is_library);
  const auto counts = [&](const ValidationRow& row) { return only_libraries || !row.is_library; };
  Scores scores{score(comparisons_of(rows, counts)), {}, {}};
  for (const bool in_sample : {true, false}) {
    const auto of_kind =
        comparisons_of(rows, [&](const ValidationRow& row) { return counts(row) && row.in_sample == in_sample; });
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
  json.push_back({{table.columns.front(), name},
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
  std::ranges::transform(data.rows, std::inserter(chips, chips.end()), &ValidationRow::chip);
  ScoreGroups groups =
      score_groups("chip", chips, data.rows, [](const ValidationRow& row) { return row.is_library ? "" : row.chip; });
  if (groups.table.rows.size() > 1) {
    report.text += "\nBy chip:\n\n" + to_aligned(groups.table);
  }
  report.json["chips"] = std::move(groups.json);
}

// Of each family, where there are several, and of the choice between them where networks were measured with several.
void add_families(const ValidationData& data, Report& report) {
  const auto family_of = [](const ValidationRow& row) { return family_name(*row.configuration.plan); };
  std::vector<std::string_view> names;
  std::ranges::transform(families(), std::back_inserter(names), &FamilyInfo::name);
  ScoreGroups groups = score_groups("family", names, data.rows, family_of);
  std::vector<Choice> choices;
  for (const ValidationRow& row : data.rows) {
    std::string of = row.chip;
    for (const std::string& cell : configuration_cells(row.configuration)) {
      of += ' ' + cell;
    }
    choices.push_back({of, std::string(family_of(row)), row.comparison.measured, row.comparison.predicted});
  }
  const ChoiceScore scores = score_choices(choices);
  report.json["families"] = std::move(groups.json);
  if (groups.table.rows.size() > 1) {
    report.text += "\nBy family" +
                   std::string(std::ranges::none_of(data.rows, &ValidationRow::is_library)
                                   ? ""
                                   : "; the libraries' are not in the sum above") +
                   ":\n\n" + to_aligned(groups.table);
  }
  if (scores.choices > 0) {
    report.json["picks"] = {{"networks", scores.choices},
                            {"best", scores.best},
                            {"best_percent", rounded(scores.best_percent())},
                            {"worst_loss_percent", rounded(scores.worst_loss_percent)},
                            {"worst", scores.worst}};
    report.text += "\nThe fastest predicted is the measured best of " + std::to_string(scores.best) + " in " +
                   std::to_string(scores.choices) + " networks (" + fixed(scores.best_percent(), 1) + " %)";
    report.text += scores.worst.empty() ? ".\n"
                                        : "; at worst it takes " + fixed(scores.worst_loss_percent, 1) +
                                              " % longer than the best: " + scores.worst + ".\n";
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
    if (row.is_library) {
      continue;
    }
    if (!row.machine_code) {
      ++no_manifest;
      continue;
    }
    ++counts[static_cast<std::size_t>(*row.machine_code)];
    if (*row.machine_code == CodeAnswer::differs) {
      const std::string which = row.file + ": " + row.network + ": " + row.way;
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

Columns<ValidationRow> row_columns(const ValidationData& data) {
  using Row = ValidationRow;
  Columns<Row> columns;
  columns.add("chip", "", "that it was measured on", &Row::chip, "", In::csv);
  columns.add_all(configuration_table(), &Row::configuration);
  columns.add_to_json("configuration", "the network, with its chip, mask and seed", [](const Row& row) {
    Json json = to_json(row.configuration.network);
    json["chip"] = row.chip;
    json["mask"] = mask_name(row.configuration);
    json["seed"] = row.configuration.seed;
    return json;
  });
  columns.add("plan", "", "that ran", &Row::way);
  add_comparison(columns, "us", "");
  add_error(columns);
  add_inside(columns);
  columns.add("stale", "", "whether its kernel would be another today", &Row::stale);
  columns.add("in_sample", "", "whether cost terms were fitted to its file", &Row::in_sample);
  if (data.compares_code) {
    columns.add("machine_code", "", "what today's is beside what ran",
                [](const Row& row) { return row.machine_code ? name(*row.machine_code) : ""; });
  }
  if (!data.ablations.empty()) {
    add_without(columns, "us");
  }
  return columns;
}

}  // namespace

Report report(const ValidationData& data, const Scores& scores, std::size_t shown_rows) {
  if (data.ablations.size() > 1) {
    return report_worth(scored(data.rows), data.ablations);
  }
  const auto stale = static_cast<std::size_t>(std::ranges::count(data.rows, true, &ValidationRow::stale));
  Report report;
  report.json = to_json(scores.all);
  report.json["in_sample"] = scores.in_sample && scores.held_out ? Json(nullptr) : Json(scores.in_sample.has_value());
  add_scores(scores, report);
  report.json["stale"] = stale;
  report.json["stale_unknown"] = data.unknown;
  report.json["failed"] = data.failed;
  const Columns<ValidationRow> columns = row_columns(data);
  add_rows(columns, data.rows, report);
  for (std::size_t i = 0; data.compares_code && i < data.rows.size(); ++i) {
    report.json["rows"][i].emplace("machine_code", "");  // of libraries
  }
  if (!data.ablations.empty()) {
    add_ablation(scored(data.rows), data.ablations.front(), report);
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
  add_worst(columns,
            {"chip", "cell", "hidden", "batch", "density", "precision", "mask", "measured_us", "predicted_us", "low_us",
             "high_us", "error_percent", "inside", "stale"},
            data.rows, shown_rows, report);
  return report;
}

}  // namespace onchip
