// SPDX-License-Identifier: Apache-2.0
// Cost terms that are left out of the prices, each at its neutral value: `validate --without`.
#pragma once

#include "experiments/command/report.hpp"
#include "experiments/validation/accuracy.hpp"
#include "model/chip/chip.hpp"
#include "model/chip/cost_terms.hpp"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace onchip {

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

}  // namespace onchip
