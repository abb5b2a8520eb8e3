// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/row_splits.hpp"

#include "model/sparse/row_assignment.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

namespace onchip {
namespace {

// Shares of the rows at each place of a group that are left whole.
constexpr std::array kUncut{0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98};
constexpr double kWorthPricing = 1.15;  // slots of a group, over the fewest of all cuts

// [rows_per_group]: slots that the rows would take, in ascending order.
std::vector<std::vector<int>> sorted_slots(const Network& network, const Plan& plan, const RowProfile& rows) {
  std::vector<std::vector<int>> slots(plan.rows_per_group);
  const int units_per_class = plan.groups() * plan.sms, gates = rows.gates();
  for (int rank = 0; rank < rows.units(); ++rank) {
    const int first = rank / units_per_class * gates;
    for (int at = 0; at < gates; ++at) {
      slots[first + at].push_back(row_slots(network, plan, rows.length(rank, at)));
    }
  }
  for (std::vector<int>& of_row : slots) {
    std::sort(of_row.begin(), of_row.end());
  }
  return slots;
}

// Pieces of all rows.
std::int64_t all_pieces(const Plan& plan, const std::vector<std::vector<int>>& slots) {
  std::int64_t pieces = 0;
  for (int r = 0; r < plan.rows_per_group; ++r) {
    for (auto of_row = slots[r].rbegin(); of_row != slots[r].rend() && *of_row > plan.slots[r]; ++of_row) {
      pieces += (*of_row - plan.slots[r] + plan.piece_slots - 1) / plan.piece_slots;
    }
  }
  return pieces;
}

// The fewest slots of a piece, in whole bundles, for which the groups of every SM take all its pieces: about as few as
// those for which all SMs together do, for they have as many each. None if that is more than `most`.
std::optional<int> slots_of_piece(const Network& network, Plan plan, const RowProfile& rows,
                                  const std::vector<std::vector<int>>& slots, int whole, int most) {
  constexpr int kTries = 4;
  const std::int64_t room = std::int64_t{plan.pieces} * plan.groups() * plan.sms;
  int too_few = 0, enough = most / whole + 1;
  while (enough - too_few > 1) {
    const int middle = (too_few + enough) / 2;
    plan.piece_slots = middle * whole;
    (all_pieces(plan, slots) <= room ? enough : too_few) = middle;
  }
  for (int tries = 0; tries < kTries && enough * whole <= most; ++tries, enough += 1 + enough / 16) {
    plan.piece_slots = enough * whole;
    const std::vector<std::int32_t> ranks = deal_units(network, plan, rows);
    if (most_pieces(network, plan, rows, ranks) <= plan.pieces * plan.groups()) {
      return plan.piece_slots;
    }
  }
  return std::nullopt;
}

// Pieces of the row that has most.
int longest_cut(const Network& network, const Plan& plan, const RowProfile& rows) {
  const int units_per_class = plan.groups() * plan.sms, gates = rows.gates();
  int most = 0;
  for (int r = 0; r < plan.rows_per_group && r / gates * units_per_class < rows.units(); ++r) {
    const int longest = rows.longest_from(r / gates * units_per_class, r % gates);
    most = std::max(most, pieces_of_row(network, plan, r, longest));
  }
  return most;
}

}  // namespace

std::vector<Cut> cut_rows(const Network& network, Plan plan, const RowProfile& rows) {
  plan.row_chunks = plan.piece_chunks = 0;
  const int whole = plan.storage == Storage::packed_delta ? bundle(network, plan).slots : 1;
  const std::vector<std::vector<int>> slots = sorted_slots(network, plan, rows);
  std::vector<Cut> cuts;
  int longest = 0;
  for (const std::vector<int>& of_row : slots) {
    longest = std::max(longest, of_row.empty() ? 0 : of_row.back());
  }
  double worth_pricing = std::numeric_limits<int>::max();  // slots of a group
  const auto slots_of = [](const Cut& cut) {
    return std::accumulate(cut.slots.begin(), cut.slots.end(), cut.pieces * cut.piece_slots);
  };
  for (const double uncut : kUncut) {
    Cut cut;
    for (int r = 0; r < plan.rows_per_group; ++r) {
      const auto place = static_cast<std::size_t>(uncut * static_cast<double>(slots[r].size()));
      const int needed = slots[r].empty() ? 1 : std::max(1, slots[r][std::min(place, slots[r].size() - 1)]);
      cut.slots[r] = (needed + whole - 1) / whole * whole;
    }
    if (!cuts.empty() && plan.slots == cut.slots) {
      continue;
    }
    plan.slots = cut.slots;
    const int of_rows = slots_of(cut);
    for (plan.pieces = 1; plan.pieces <= kMostPieces; plan.pieces *= 2) {
      const int most = static_cast<int>((std::min<double>(worth_pricing, of_rows + longest) - of_rows) / plan.pieces);
      if (const auto found = slots_of_piece(network, plan, rows, slots, whole, most)) {
        plan.piece_slots = cut.piece_slots = *found;
        cut.pieces = plan.pieces;
        cut.most_pieces = longest_cut(network, plan, rows);
        cuts.push_back(cut);
        worth_pricing = std::min(worth_pricing, kWorthPricing * slots_of(cut));
      }
    }
  }
  std::erase_if(cuts, [&](const Cut& cut) { return slots_of(cut) > worth_pricing; });
  return cuts;
}

}  // namespace onchip
