// SPDX-License-Identifier: Apache-2.0
// What onchip measure says of recurrent networks' plans that ran, and of libraries beside one.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/measurement/manifest.hpp"
#include "experiments/measurement/measured_plans.hpp"
#include "model/answer/case_columns.hpp"
#include "model/answer/columns.hpp"

#include <string>

namespace onchip {

// A row for each plan of a recurrent network.
const Columns<MeasuredPlan>& measured_plan_columns();
ColumnGroup baseline_column_group();

std::string correctness_text(const Correctness& correctness);

// The header of all measurements for people: "... on NVIDIA H200, driver ..."
std::string measured_on(const std::string& what, const Manifest& manifest);

// Of one plan; of the plans of several families.
Report plan_report(const ChipFile& chip, const MeasuredPlans& measured, const Manifest& manifest);
Report families_report(const ChipFile& chip, const MeasuredPlans& measured, const Manifest& manifest);

}  // namespace onchip
