// SPDX-License-Identifier: Apache-2.0
#include "model/cut.hpp"

#include "model/dealing.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>

namespace onchip {
namespace {

// Shares of the rows at each place of a group that are left whole; and slots of a piece.
constexpr std::array kUncut{0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98};
constexpr std::array kPieceSlots{2, 3, 4, 6, 8, 12, 16, 24};

// [rows_per_group]: slots that the rows would take, in ascending order.
std::vector<std::vector<int>> sorted_slots(const Network& network, const Plan& plan, const RowProfile& rows) {
  std::vector<std::vector<int>> slots(plan.rows_per_group);
  const int units_per_class = plan.groups() * plan.sms, gates = rows.gates();
  for (int rank = 0; rank < rows.units(); ++rank) {
    for (int at = 0; at < gates; ++at) {
      slots[rank / units_per_class * gates + at].push_back(row_slots(network, plan, rows.length(rank, at)));
    }
  }
  for (std::vector<int>& of_row : slots) {
    std::sort(of_row.begin(), of_row.end());
  }
  return slots;
}

// Pieces of the row that has most.
int longest_cut(const Plan& plan, const RowProfile& rows) {
  const int units_per_class = plan.groups() * plan.sms, gates = rows.gates();
  int most = 0;
  for (int r = 0; r < plan.rows_per_group && r / gates * units_per_class < rows.units(); ++r) {
    most = std::max(most, pieces_needed(plan, r, rows.longest_from(r / gates * units_per_class, r % gates)));
  }
  return most;
}

}  // namespace

std::vector<Cut> cut_rows(const Network& network, Plan plan, const RowProfile& rows) {
  const std::vector<std::int32_t> ranks = deal_units(network, plan, rows);
  const std::vector<std::vector<int>> slots = sorted_slots(network, plan, rows);
  std::array<Cut, std::bit_width(unsigned{kMostPieces})> best;  // of 1, 2, 4 pieces
  std::array<int, best.size()> fewest;
  fewest.fill(std::numeric_limits<int>::max());
  constexpr double kWorthPricing = 1.5;  // of the fewest slots
  for (const double uncut : kUncut) {
    const auto before = plan.slots;
    int of_rows = 0;
    for (int r = 0; r < plan.rows_per_group; ++r) {
      const auto place = static_cast<std::size_t>(uncut * static_cast<double>(slots[r].size()));
      plan.slots[r] = slots[r].empty() ? 1 : std::max(1, slots[r][std::min(place, slots[r].size() - 1)]);
      of_rows += plan.slots[r];
    }
    if (uncut > kUncut.front() && plan.slots == before) {
      continue;
    }
    for (const int piece_slots : kPieceSlots) {
      if (of_rows + piece_slots >= kWorthPricing * *std::min_element(fewest.begin(), fewest.end())) {
        break;
      }
      plan.piece_slots = piece_slots;
      const int most = most_pieces(network, plan, rows, ranks);
      const int pieces = static_cast<int>(
          std::bit_ceil(static_cast<unsigned>(std::max(1, (most + plan.groups() - 1) / plan.groups()))));
      const int total = of_rows + pieces * piece_slots;
      if (pieces > kMostPieces) {
        continue;
      }
      const int of_best = std::countr_zero(static_cast<unsigned>(pieces));
      if (total < fewest[of_best]) {
        fewest[of_best] = total;
        best[of_best] = {plan.slots, pieces, piece_slots, longest_cut(plan, rows)};
      }
    }
  }
  std::vector<Cut> cuts;
  std::copy_if(best.begin(), best.end(), std::back_inserter(cuts), [](const Cut& cut) { return cut.pieces > 0; });
  return cuts;
}

}  // namespace onchip
