// SPDX-License-Identifier: Apache-2.0
// Measured rows beside what was predicted, in the three output forms: what those of all workloads have in common; then
// those of recurrent networks, in-sample and held out, chip by chip, family by family.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/measurement/machine_code.hpp"
#include "experiments/validation/accuracy.hpp"
#include "model/answer/configuration.hpp"
#include "model/chip/chip.hpp"
#include "model/chip/cost_terms.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// ---- validate --without: cost terms that are left out of the prices, each at its neutral value ----------------------

struct Ablation {
  std::vector<const CostTerm*> terms;  // left out together

  std::vector<std::string> names() const;
};

inline constexpr std::string_view kEveryTerm = "all";

// "all" is an ablation for each term, other names are one together; none is none. Throws InputError for unknown names,
// with the nearest.
std::vector<Ablation> read_ablations(std::span<const std::string> names);

// What is predicted for a chip without the terms of each ablation.
std::vector<double> predict_without(const Chip& chip, std::span<const Ablation> ablations,
                                    const std::function<double(const Chip&)>& predict);

// Adds what the terms of the first ablation are worth, together: over all kernels, and over the rows that use them.
void add_ablation(std::span<const ScoredRow> rows, const Ablation& ablation, Report& report);
// A line for each ablation instead: the rows whose prediction it changes, their mean error with and without.
Report report_worth(std::span<const ScoredRow> rows, std::span<const Ablation> ablations);

// ---- of any ScoredRow -----------------------------------------------------------------------------------------------

Json to_json(const Accuracy& accuracy);

// Of all rows, or those that are `wanted`.
template <typename Row, typename Wanted = bool (*)(const Row&)>
std::vector<Comparison> comparisons_of(
    const std::vector<Row>& rows, Wanted wanted = [](const Row&) { return true; }) {
  std::vector<Comparison> comparisons;
  for (const Row& row : rows) {
    if (std::invoke(wanted, row)) {
      comparisons.push_back(row.comparison);
    }
  }
  return comparisons;
}

// Rows' scores, group by group: those of a chip, or of a family. Groups without rows are left out.
struct ScoreGroups {
  Table table;
  Json json = Json::array();

  void add(std::string_view name, const std::vector<Comparison>& comparisons);
};
// `key`: what the groups are called; `group_of(row)`: the name of its own.
template <typename Row, typename GroupOf>
ScoreGroups score_groups(std::string_view key, const auto& names, const std::vector<Row>& rows, GroupOf group_of) {
  ScoreGroups groups{{{std::string(key), "points", "MAPE %", "max %", "bias", "coverage %"}, {}}};
  for (const auto& name : names) {
    groups.add(name, comparisons_of(rows, [&](const Row& row) { return std::invoke(group_of, row) == name; }));
  }
  return groups;
}

// Times, interval and error, in the unit of the comparison. `interval`: where JSON has it, "interval_us/"; "": as CSV
// does; null: not at all. `predicted`: who says it.
template <typename Row>
void add_comparison(Columns<Row>& columns, const std::string& unit, const char* interval,
                    const std::string& predicted = "predicted") {
  const auto of = [](auto get) { return [get](const Row& row) { return std::invoke(get, row.comparison); }; };
  const auto place = [&](const char* which) {
    return interval == nullptr || *interval == '\0' ? std::string() : std::string(interval) + which;
  };
  const In in = interval == nullptr ? In::csv : In::csv_and_json;
  columns.add("measured_" + unit, unit, "median of the samples", of(&Comparison::measured));
  columns.add(predicted + '_' + unit, unit, "what is said of it", of(&Comparison::predicted));
  columns.add("low_" + unit, unit, "its 95 % interval", of(&Comparison::low), place("0"), in);
  columns.add("high_" + unit, unit, "its 95 % interval", of(&Comparison::high), place("1"), in);
}
template <typename Row>
void add_error(Columns<Row>& columns) {
  columns.add(
      "error_percent", "%", "by how much that is above the measurement",
      [](const Row& row) { return row.comparison.error_percent(); }, "", In::csv_and_json, /*digits=*/4);
}
template <typename Row>
void add_inside(Columns<Row>& columns) {
  columns.add("inside", "", "whether the measurement lies in the interval",
              [](const Row& row) { return row.comparison.inside(); });
}
template <typename Row>
void add_without(Columns<Row>& columns, const std::string& unit) {
  columns.add("without_" + unit, unit, "predicted without the terms of --without",
              [](const Row& row) { return row.without.front(); });
}

template <typename Row>
void add_rows(const Columns<Row>& columns, const std::vector<Row>& rows, Report& report) {
  report.csv = columns.table(rows);
  report.json["rows"] = Json::array();
  for (const Row& row : rows) {
    report.json["rows"].push_back(columns.json(row));
  }
}

// The rows with the largest errors as a table of these columns.
template <typename Row>
void add_worst(const Columns<Row>& columns, const std::vector<std::string_view>& names, std::vector<Row> rows,
               std::size_t shown_rows, Report& report) {
  std::ranges::stable_sort(rows, std::ranges::greater(),
                           [](const Row& row) { return std::abs(row.comparison.error_percent()); });
  const auto worst = std::span(rows).first(std::min(rows.size(), shown_rows));
  report.text += "\nWorst first, " + std::to_string(worst.size()) + " of " + std::to_string(rows.size()) + ":\n\n" +
                 to_aligned(columns.table(worst, names));
}

// What all of them are, as the ablation takes them.
template <typename Row>
std::vector<ScoredRow> scored(const std::vector<Row>& rows) {
  return {rows.begin(), rows.end()};
}

// ---- of recurrent networks ------------------------------------------------------------------------------------------

struct ValidationRow : ScoredRow {  // us per step
  std::string file;
  Configuration configuration;
  std::string fingerprint, code_fingerprint;  // of the kernel that ran
  bool stale = false;
  std::optional<CodeAnswer> machine_code;  // if asked for, of kernels
  bool in_sample = false;                  // of a file that had a say in the cost terms
};

struct ValidationData {
  std::vector<ValidationRow> rows;  // timed
  std::size_t left_out = 0;         // without a plan: a family that cannot run the network; the row says why
  std::size_t not_simulated = 0;    // of plans that the simulator does not replay
  std::vector<std::string> failed;  // measured, but without a time
  bool compares_code = false;
  std::vector<Ablation> ablations;
  std::vector<std::string> unknown;  // files of which nobody can say here whether they are stale, with the reason
};

// Of the rows that count, which are the kernels' or, where there are none, all.
struct Scores {
  Accuracy all;
  std::optional<Accuracy> in_sample, held_out;  // where there are such rows
};
Scores score_rows(const std::vector<ValidationRow>& rows);

// The text has so many of the worst rows. With several ablations instead a line for each: the rows whose prediction it
// changes, their mean error with and without.
Report report(const ValidationData& data, const Scores& scores, std::size_t shown_rows);

}  // namespace onchip
