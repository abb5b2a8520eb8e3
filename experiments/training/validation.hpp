// SPDX-License-Identifier: Apache-2.0
// Measured training steps (measure --mode train --configurations) beside the price of the plans that ran.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/reports/validation_report.hpp"
#include "experiments/validation/accuracy.hpp"
#include "model/base/table.hpp"
#include "model/chip/chip.hpp"

#include <span>
#include <string>
#include <vector>

namespace onchip {

// Whether a file's rows are of training steps.
bool has_trainings(const CsvReader& file);

// Rows of kernels, whose way is both plans, and the quickest of cuDNN's of each network; us per step. Throws InputError
// with the row.
std::vector<ScoredRow> read_trainings(const CsvReader& file, const Chip& chip,
                                      std::span<const Ablation> ablations = {});

// Accuracy of the kernels' rows, of which there is at least one.
Accuracy score(const std::vector<ScoredRow>& rows);
Report report(const std::vector<ScoredRow>& rows, std::span<const Ablation> ablations, std::size_t shown_rows);

}  // namespace onchip
