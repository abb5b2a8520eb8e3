// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/search/row_splits.hpp"

#include "model/sparse/row_assignment.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

namespace onchip {
namespace {

// Shares of the rows at each place of a group that are left whole.
constexpr std::array kUnsplit{0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98};
constexpr double kWorthPricing = 1.15;  // slots of a group, over the fewest of all choices

// [rows_per_group]: slots that the rows would take, in ascending order.
std::vector<std::vector<int>> sorted_slots(const SparseGeometry& geometry, const RowProfile& rows) {
  std::vector<std::vector<int>> slots(geometry.rows_per_group);
  const int units_per_class = geometry.groups() * geometry.sms, gates = rows.gates();
  for (int rank = 0; rank < rows.units(); ++rank) {
    const int first = rank / units_per_class * gates;
    for (int at = 0; at < gates; ++at) {
      slots[first + at].push_back(geometry.row_slots(rows.length(rank, at)));
    }
  }
  for (std::vector<int>& of_row : slots) {
    std::sort(of_row.begin(), of_row.end());
  }
  return slots;
}

// Splits of all rows.
std::int64_t all_splits(const SparsePlan& plan, const std::vector<std::vector<int>>& slots) {
  std::int64_t splits = 0;
  for (int r = 0; r < plan.rows_per_group; ++r) {
    for (auto of_row = slots[r].rbegin(); of_row != slots[r].rend() && *of_row > plan.slots[r]; ++of_row) {
      splits += (*of_row - plan.slots[r] + plan.split_slots - 1) / plan.split_slots;
    }
  }
  return splits;
}

// The fewest slots of a split, in whole bundles, for which the groups of every SM take all its splits: about as few as
// those for which all SMs together do, for they have as many each. None if that is more than `most`.
std::optional<int> slots_of_split(const Recurrent& network, SparsePlan plan, const RowProfile& rows,
                                  const std::vector<std::vector<int>>& slots, int whole, int most) {
  constexpr int kTries = 4;
  const std::int64_t room = std::int64_t{plan.row_splits} * plan.groups() * plan.sms;
  int too_few = 0, enough = most / whole + 1;
  while (enough - too_few > 1) {
    const int middle = (too_few + enough) / 2;
    plan.split_slots = middle * whole;
    (all_splits(plan, slots) <= room ? enough : too_few) = middle;
  }
  for (int tries = 0; tries < kTries && enough * whole <= most; ++tries, enough += 1 + enough / 16) {
    plan.split_slots = enough * whole;
    const SparseGeometry geometry(network, plan);
    const std::vector<std::int32_t> ranks = assign_units(geometry, rows);
    if (most_splits(geometry, rows, ranks) <= plan.row_splits * plan.groups()) {
      return plan.split_slots;
    }
  }
  return std::nullopt;
}

// Splits of the row that has most.
int longest_splits(const SparseGeometry& geometry, const RowProfile& rows) {
  const int units_per_class = geometry.groups() * geometry.sms, gates = rows.gates();
  int most = 0;
  for (int r = 0; r < geometry.rows_per_group && r / gates * units_per_class < rows.units(); ++r) {
    const int longest = rows.longest_from(r / gates * units_per_class, r % gates);
    most = std::max(most, splits_of_row(geometry, r, longest));
  }
  return most;
}

}  // namespace

std::vector<SplitChoice> split_choices(const Recurrent& network, SparsePlan plan, const RowProfile& rows) {
  plan.row_chunks = plan.split_chunks = 0;
  const int whole = plan.storage == Storage::packed_delta ? SparseGeometry(network, plan).bundle.slots : 1;
  const std::vector<std::vector<int>> slots = sorted_slots(SparseGeometry(network, plan), rows);
  std::vector<SplitChoice> choices;
  int longest = 0;
  for (const std::vector<int>& of_row : slots) {
    longest = std::max(longest, of_row.empty() ? 0 : of_row.back());
  }
  double worth_pricing = std::numeric_limits<int>::max();  // slots of a group
  const auto slots_of = [](const SplitChoice& choice) {
    return std::accumulate(choice.slots.begin(), choice.slots.end(), choice.row_splits * choice.split_slots);
  };
  for (const double unsplit : kUnsplit) {
    SplitChoice choice;
    for (int r = 0; r < plan.rows_per_group; ++r) {
      const auto place = static_cast<std::size_t>(unsplit * static_cast<double>(slots[r].size()));
      const int needed = slots[r].empty() ? 1 : std::max(1, slots[r][std::min(place, slots[r].size() - 1)]);
      choice.slots[r] = (needed + whole - 1) / whole * whole;
    }
    if (!choices.empty() && plan.slots == choice.slots) {
      continue;
    }
    plan.slots = choice.slots;
    const int of_rows = slots_of(choice);
    for (plan.row_splits = 1; plan.row_splits <= kMostRowSplits; plan.row_splits *= 2) {
      const int most =
          static_cast<int>((std::min<double>(worth_pricing, of_rows + longest) - of_rows) / plan.row_splits);
      if (const auto found = slots_of_split(network, plan, rows, slots, whole, most)) {
        plan.split_slots = choice.split_slots = *found;
        choice.row_splits = plan.row_splits;
        choice.most_splits = longest_splits(SparseGeometry(network, plan), rows);
        choices.push_back(choice);
        worth_pricing = std::min(worth_pricing, kWorthPricing * slots_of(choice));
      }
    }
  }
  std::erase_if(choices, [&](const SplitChoice& choice) { return slots_of(choice) > worth_pricing; });
  return choices;
}

}  // namespace onchip
