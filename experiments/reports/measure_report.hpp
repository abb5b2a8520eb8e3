// SPDX-License-Identifier: Apache-2.0
// What onchip measure says of recurrent networks' plans that ran, and of libraries beside one.
#pragma once

#include "experiments/command/configuration_rows.hpp"
#include "experiments/measurement/manifest.hpp"
#include "experiments/measurement/measured_plans.hpp"
#include "model/answer/columns.hpp"

#include <functional>
#include <string>
#include <vector>

namespace onchip {

// The network of a row, in CSV: configuration_columns() and what they mean.
std::vector<std::string> network_helps();
template <typename Row, typename Get>
void add_network(Columns<Row>& columns, Get get) {
  const std::vector<std::string> names = configuration_columns(), helps = network_helps();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto cell = [get, i](const Row& row) { return configuration_cells(std::invoke(get, row))[i]; };
    columns.add(names[i], "", helps.at(i), cell, "", In::csv);
  }
}

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
