// SPDX-License-Identifier: Apache-2.0
// Measured steps beside what was predicted, in the three output forms: in-sample and held out, chip by chip, family by
// family.
#pragma once

#include "experiments/measurement/machine_code.hpp"
#include "experiments/reports/ablation.hpp"
#include "experiments/reports/recurrent_report.hpp"
#include "experiments/validation/accuracy.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace onchip {

Json to_json(const Accuracy& accuracy);

// Rows' scores, group by group: those of a chip, or of a family.
struct ScoreGroups {
  explicit ScoreGroups(std::string_view what)
      : key(what), table{{key, "points", "MAPE %", "max %", "bias", "coverage %"}, {}} {}

  void add(std::string_view name, const std::vector<Comparison>& comparisons);

  std::string key;
  Table table;
  Json json = Json::array();
};

struct ValidationRow {
  std::string file, chip;
  Configuration configuration;
  Comparison comparison;                      // us per step
  std::string fingerprint, code_fingerprint;  // of the kernel that ran
  bool stale = false;
  std::optional<CodeAnswer> machine_code;  // if asked for, of kernels
  bool in_sample = false;                  // of a file that had a say in the cost terms
  std::vector<double> without{};           // predicted, for each of ValidationData::ablations
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

bool is_kernel(const ValidationRow& row);  // not a library
std::vector<Comparison> comparisons_of(const ValidationData& data,
                                       const std::function<bool(const ValidationRow&)>& wanted);

// Of the rows that count, which are the kernels' or, where there are none, all.
struct Scores {
  Accuracy all;
  std::optional<Accuracy> in_sample, held_out;  // where there are such rows
};
Scores score_rows(const ValidationData& data);

// Of `history` the errors stand beside the scores; the text has so many of the worst rows.
Report report(const ValidationData& data, const Scores& scores, std::size_t shown_rows);

// A line for each ablation instead: the rows whose prediction it changes, their mean error with and without.
Report report_worth(const ValidationData& data);

}  // namespace onchip
