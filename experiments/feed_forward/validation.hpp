// SPDX-License-Identifier: Apache-2.0
// Measured inferences of feed-forward networks beside the price of the plan that ran.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/reports/validation_report.hpp"
#include "experiments/validation/accuracy.hpp"
#include "model/answer/feed_forward/asked.hpp"
#include "model/base/table.hpp"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace onchip {

struct InferenceRow : ScoredRow {  // ms
  int gpus = 1;
};

struct Inferences {
  std::vector<InferenceRow> rows;
  std::vector<std::string> failed;  // without a time, or with wrong categories
  std::size_t left_out = 0;         // of libraries, which have no price
};

// Whether a file's rows are of feed-forward networks.
bool has_inferences(const CsvReader& file);

// Throws InputError with the row.
void read_inferences(const CsvReader& file, const ChipFile& chip, std::span<const Ablation> ablations,
                     KnownFeedForward& known, Inferences& inferences,
                     const std::function<void(const std::string&)>& say);

// Expects at least one row.
Report report(const Inferences& inferences, const Accuracy& all, std::span<const Ablation> ablations,
              std::size_t shown_rows);

}  // namespace onchip
