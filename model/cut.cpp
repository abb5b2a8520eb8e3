// SPDX-License-Identifier: Apache-2.0
#include "model/cut.hpp"

#include "model/dealing.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

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
    for (int at = 0; at < gates; ++at) {
      slots[rank / units_per_class * gates + at].push_back(row_slots(network, plan, rows.length(rank, at)));
    }
  }
  for (std::vector<int>& of_row : slots) {
    std::sort(of_row.begin(), of_row.end());
  }
  return slots;
}

int slots_of_longest(const std::vector<std::vector<int>>& slots) {
  int most = 1;
  for (const std::vector<int>& of_row : slots) {
    most = std::max(most, of_row.empty() ? 0 : of_row.back());
  }
  return most;
}

// Every SM's rows, with the slots that all lanes of a group would take of them, for many cuts of the same rows.
class DealtRows {
 public:
  DealtRows(const Network& network, const Plan& plan, const RowProfile& rows)
      : lanes_(plan.lanes_per_row), rows_of_sm_(static_cast<std::size_t>(plan.sms)) {
    const std::vector<std::int32_t> ranks = deal_units(network, plan, rows);
    const int units = units_per_sm(network, plan), gates = rows.gates();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const int unit = static_cast<int>(i) % units;
      for (int at = 0; ranks[i] >= 0 && at < gates; ++at) {
        const auto slots = static_cast<int>(slots_of_lanes(network, plan, rows.length(ranks[i], at)));
        rows_of_sm_[i / static_cast<std::size_t>(units)].push_back({unit / plan.groups() * gates + at, slots});
      }
    }
  }

  // See most_pieces(): of rows that are cut as the plan says, without chunks.
  int most_pieces(const Plan& plan) const {
    const int of_piece = plan.piece_slots * lanes_;
    int most = 0;
    for (const std::vector<Row>& of_sm : rows_of_sm_) {
      int in_sm = 0;
      for (const Row& row : of_sm) {
        const int beyond = row.slots - plan.slots[row.r] * lanes_;
        in_sm += beyond > 0 ? (beyond + of_piece - 1) / of_piece : 0;
      }
      most = std::max(most, in_sm);
    }
    return most;
  }

 private:
  struct Row {
    int r, slots;
  };
  int lanes_;
  std::vector<std::vector<Row>> rows_of_sm_;
};

// Pieces of the row that has most.
int longest_cut(const Network& network, const Plan& plan, const RowProfile& rows) {
  const int units_per_class = plan.groups() * plan.sms, gates = rows.gates();
  int most = 0;
  for (int r = 0; r < plan.rows_per_group && r / gates * units_per_class < rows.units(); ++r) {
    most = std::max(most, pieces_needed(network, plan, r, rows.longest_from(r / gates * units_per_class, r % gates)));
  }
  return most;
}

}  // namespace

std::vector<Cut> cut_rows(const Network& network, Plan plan, const RowProfile& rows) {
  plan.row_chunks = plan.piece_chunks = 0;
  const int whole = plan.storage == Storage::packed_delta ? bundle(network, plan).slots : 1;
  const DealtRows dealt(network, plan, rows);
  const std::vector<std::vector<int>> slots = sorted_slots(network, plan, rows);
  std::vector<Cut> cuts;
  int fewest = std::numeric_limits<int>::max();
  for (const double uncut : kUncut) {
    const auto before = plan.slots;
    for (int r = 0; r < plan.rows_per_group; ++r) {
      const auto place = static_cast<std::size_t>(uncut * static_cast<double>(slots[r].size()));
      const int needed = slots[r].empty() ? 1 : std::max(1, slots[r][std::min(place, slots[r].size() - 1)]);
      plan.slots[r] = (needed + whole - 1) / whole * whole;
    }
    if (uncut > kUncut.front() && plan.slots == before) {
      continue;
    }
    for (plan.pieces = 1; plan.pieces <= kMostPieces; plan.pieces *= 2) {
      // The fewest slots of a piece, in bundles, for which the groups take all pieces.
      int too_few = 0, enough = (slots_of_longest(slots) + whole - 1) / whole;
      while (enough - too_few > 1) {
        const int middle = (too_few + enough) / 2;
        plan.piece_slots = middle * whole;
        (dealt.most_pieces(plan) <= plan.pieces * plan.groups() ? enough : too_few) = middle;
      }
      plan.piece_slots = enough * whole;
      if (dealt.most_pieces(plan) <= plan.pieces * plan.groups()) {
        cuts.push_back({plan.slots, plan.pieces, plan.piece_slots, longest_cut(network, plan, rows)});
        fewest = std::min(fewest, plan.slots_total());
      }
    }
  }
  std::erase_if(cuts, [&](const Cut& cut) {
    return std::accumulate(cut.slots.begin(), cut.slots.end(), cut.pieces * cut.piece_slots) > kWorthPricing * fewest;
  });
  return cuts;
}

}  // namespace onchip
