// SPDX-License-Identifier: Apache-2.0
// Cost terms that are left out of the prices, each at its neutral value: `validate --without`.
#pragma once

#include "experiments/reports/recurrent_report.hpp"
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

// A measured row and its predictions without the terms of each ablation.
struct AblatedRow {
  Comparison comparison;
  std::vector<double> without;
  bool is_kernel = true;
};
// Of rows with such members.
template <typename Row, typename IsKernel>
std::vector<AblatedRow> ablated(const std::vector<Row>& rows, IsKernel&& is_kernel) {
  std::vector<AblatedRow> of;
  for (const Row& row : rows) {
    of.push_back({row.comparison, row.without, is_kernel(row)});
  }
  return of;
}

// Adds what the terms of the first ablation are worth, together: over all kernels, and over the rows that use them.
void add_ablation(std::span<const AblatedRow> rows, const Ablation& ablation, Report& report);
// A line for each ablation instead: the rows whose prediction it changes, their mean error with and without.
Report report_worth(std::span<const AblatedRow> rows, std::span<const Ablation> ablations);

}  // namespace onchip
