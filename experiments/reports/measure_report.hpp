// SPDX-License-Identifier: Apache-2.0
// What onchip measure says of a plan that ran: a row of CSV, or the whole of one configuration.
#pragma once

#include "experiments/command/report.hpp"
#include "experiments/measurement/manifest.hpp"
#include "experiments/measurement/measurement.hpp"

#include <string>
#include <vector>

namespace onchip {

struct MeasuredNetwork {
  PlannedNetwork planned;
  std::int64_t nnz = 0;
  std::int64_t gather_wavefronts = 0;  // of the busiest SM
  double conflict_free_us = 0;         // reading the states of all non-zeros of an SM, the samples of the batch only
  Measurement measurement;
};

// The columns of measured data, and the cells of a result. A configuration that could not be measured still has its
// row.
std::vector<std::string> result_columns();
std::vector<std::string> result_cells(const Configuration& configuration, const MeasuredNetwork& result);
std::vector<std::string> failed_cells(const Configuration& configuration, const std::string& plan);

std::string correctness_text(const Correctness& correctness);
Report report_result(const Case& asked, const MeasuredNetwork& result, const Manifest& manifest);

}  // namespace onchip
