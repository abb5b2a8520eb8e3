// SPDX-License-Identifier: Apache-2.0
// How the cost terms are grouped on the equations page, and which measured files had a say in them.
#pragma once

#include "model/chip/cost_terms.hpp"

#include <array>
#include <string_view>

namespace onchip {

// The parts of the enumeration, by the first term of each.
struct CostGroup {
  Cost first;
  std::string_view name;
};
inline constexpr std::array kCostGroups{
    CostGroup{Cost::exchange_first_lines, "exchange"},
    CostGroup{Cost::split_rows_filled, "bank conflicts"},
    CostGroup{Cost::split_round, "sparse steps"},
    CostGroup{Cost::output_instructions, "instructions of a loop"},
    CostGroup{Cost::dense_stores_per_cycle, "dense steps"},
    CostGroup{Cost::training_exchange_exposed, "recurrences of training"},
    CostGroup{Cost::library_plain_node, "libraries"},
    CostGroup{Cost::blocks_block_instructions, "feed-forward blocks"},
    CostGroup{Cost::streamed_product_instructions, "feed-forward, streamed"},
    CostGroup{Cost::unstructured_step_instructions, "feed-forward, unstructured"},
    CostGroup{Cost::staged_slots, "feed-forward, the method of 2020"},
    CostGroup{Cost::sequence_launch, "a whole network"},
    CostGroup{Cost::exchange_scatter_in_step, "intervals"},
};
constexpr std::string_view group_of(Cost cost) {
  std::string_view name;
  for (const CostGroup& group : kCostGroups) {
    if (group.first <= cost) {
      name = group.name;
    }
  }
  return name;
}

// Files by whose steps it was chosen which terms there are; nothing was fitted to them.
inline constexpr std::array<std::string_view, 2> kTermsChosenBy{"h100_sxm/drawn.csv", "h100_sxm/drawn_third.csv"};

// Whether a measured file, ".../h200/validation.csv", had a say in the terms: their values, or which there are.
constexpr bool is_in_sample(std::string_view file) {
  const auto is = [file](std::string_view name) {
    return file.ends_with(name) && (file.size() == name.size() || file[file.size() - name.size() - 1] == '/');
  };
  for (const CostTerm& term : kCostTerms) {
    if (is(term.fitted_to)) {
      return true;
    }
  }
  for (const std::string_view chosen_by : kTermsChosenBy) {
    if (is(chosen_by)) {
      return true;
    }
  }
  return false;
}

}  // namespace onchip
