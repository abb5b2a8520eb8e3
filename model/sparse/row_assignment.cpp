// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/row_assignment.hpp"

#include <algorithm>
#include <array>
#include <queue>
#include <tuple>

namespace onchip {
namespace {

// Group of the unit at this place of an SM. Every other full class goes from the last group to the first, so that no
// warp has all the longest.
int group_of(const Network& network, const Plan& plan, int place) {
  const int groups = plan.groups();
  const int in_class = place % groups;
  const bool reversed = place / groups % 2 && (place / groups + 1) * groups <= units_per_sm(network, plan);
  return reversed ? groups - 1 - in_class : in_class;
}

int state_place(const Network& network, const Plan& plan, int place) {
  return place / plan.groups() * plan.groups() + group_of(network, plan, place);
}

// [pieces, warps]: chunks of the pieces of one SM, whose units have these ranks.
std::vector<int> chunks_of_pieces(const Network& network, const Plan& plan, const RowProfile& rows,
                                  const std::int32_t* ranks) {
  if (plan.pieces == 0) {
    return {};
  }
  const int units = units_per_sm(network, plan), gates = rows.gates(), groups = plan.groups();
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(plan.rows_per_group) * groups, 0);
  for (int r = 0; r < plan.rows_per_group; ++r) {
    for (int group = 0; group < groups && r / gates * groups + group < units; ++group) {
      const std::int32_t rank = ranks[r / gates * groups + group];
      lengths[r * groups + group] = rank < 0 ? 0 : rows.length(rank, r % gates);
    }
  }
  std::vector<Piece> pieces = deal_pieces(network, plan, lengths);
  std::vector<int> chunks(static_cast<std::size_t>(plan.pieces) * plan.warps(), 0);
  for (int number = 0; number < plan.pieces * groups; ++number) {
    int& of_warp = chunks[number / groups * plan.warps() + number % groups / (groups / plan.warps())];
    of_warp = std::max(of_warp, chunks_beyond(network, plan, plan.piece_slots, pieces[number].slots));
  }
  return chunks;
}

// Adds the tails of one SM, whose units have these ranks.
void add_sm(const Network& network, const Plan& plan, const RowProfile& rows, const std::int32_t* ranks, Tail& tail) {
  const int units = units_per_sm(network, plan);
  const int gates = rows.gates();
  const int groups = plan.groups();
  const int groups_per_warp = groups / plan.warps();
  int in_sm = 0;
  const std::vector<int> of_pieces = chunks_of_pieces(network, plan, rows, ranks);
  for (int warp = 0; warp < plan.warps(); ++warp) {
    int in_warp = 0;
    for (int piece = 0; piece < plan.pieces; ++piece) {
      in_warp += of_pieces[piece * plan.warps() + warp];
    }
    for (int r = 0; r < plan.rows_per_group; ++r) {
      int longest = 0;
      const int first = r / gates * groups + warp * groups_per_warp;
      for (int at = first; at < std::min(units, first + groups_per_warp); ++at) {
        if (ranks[at] >= 0) {
          longest = std::max(longest, rows.length(ranks[at], r % gates));
        }
      }
      in_warp += chunks_needed(network, plan, r, longest);
    }
    in_sm += in_warp;
    tail.longest = std::max(tail.longest, in_warp);
  }
  tail.mean += in_sm;
  tail.fullest = std::max(tail.fullest, in_sm);
}

}  // namespace

int pieces_of_row(const Network& network, const Plan& plan, int r, std::int64_t length) {
  const std::int64_t room = std::int64_t{row_room(network, plan, r)} * plan.lanes_per_row;
  const std::int64_t beyond = slots_of_lanes(network, plan, length) - room;
  const std::int64_t of_piece = std::int64_t{piece_room(network, plan)} * plan.lanes_per_row;
  return static_cast<int>(std::max<std::int64_t>(0, (beyond + of_piece - 1) / of_piece));
}

int pieces_of_unit(const Network& network, const Plan& plan, const RowProfile& rows, int r, int rank) {
  int pieces = 0;
  for (int at = 0; at < rows.gates(); ++at) {
    pieces += pieces_of_row(network, plan, r + at, rows.length(rank, at));
  }
  return pieces;
}

std::vector<Piece> deal_pieces(const Network& network, const Plan& plan, const std::vector<std::int64_t>& lengths) {
  const int groups = plan.groups(), lanes = plan.lanes_per_row;
  struct CutRow {
    int r, group, pieces, slots;  // of each piece
    std::int64_t beyond;
  };
  std::vector<CutRow> cut;
  int total = 0;
  for (int r = 0; r < plan.rows_per_group; ++r) {
    for (int group = 0; group < groups; ++group) {
      const std::int64_t length = lengths[static_cast<std::size_t>(r) * groups + group];
      if (const int pieces = pieces_of_row(network, plan, r, length); pieces > 0) {
        const std::int64_t kept = std::int64_t{row_room(network, plan, r)} * lanes;
        const std::int64_t beyond = slots_of_lanes(network, plan, length) - kept;
        const std::int64_t of_all = std::int64_t{pieces} * lanes;
        const int alike = static_cast<int>((beyond + of_all - 1) / of_all);
        cut.push_back({r, group, pieces, plan.piece_chunks > 0 ? alike : plan.piece_slots, beyond});
        total += pieces;
      }
    }
  }
  const int places = plan.pieces * groups;
  std::vector<Piece> pieces;
  if (plan.piece_chunks > 0) {
    std::stable_sort(cut.begin(), cut.end(), [](const CutRow& a, const CutRow& b) { return a.slots < b.slots; });
    pieces.resize(static_cast<std::size_t>(std::max(0, places - total)));
  }
  for (const CutRow& row : cut) {
    for (int number = 0; number < row.pieces; ++number) {
      const std::int64_t left = row.beyond - std::int64_t{number} * row.slots * lanes;
      const int slots = static_cast<int>(std::min<std::int64_t>(row.slots, (left + lanes - 1) / lanes));
      pieces.push_back({row.r, row.group, number, row.pieces, slots});
    }
  }
  pieces.resize(static_cast<std::size_t>(std::max(places, total)));
  return pieces;
}

int most_pieces(const Network& network, const Plan& plan, const RowProfile& rows,
                const std::vector<std::int32_t>& ranks) {
  const int units = units_per_sm(network, plan), gates = rows.gates();
  int most = 0;
  for (int sm = 0; sm < plan.sms; ++sm) {
    int in_sm = 0;
    for (int place = 0; place < units; ++place) {
      const std::int32_t rank = ranks[static_cast<std::size_t>(sm) * units + place];
      in_sm += rank < 0 ? 0 : pieces_of_unit(network, plan, rows, place / plan.groups() * gates, rank);
    }
    most = std::max(most, in_sm);
  }
  return most;
}

int chunks_beyond(const Network& network, const Plan& plan, int in_registers, int slots) {
  const int per_chunk = chunk_slots(network, plan);
  return std::max(0, slots - in_registers + per_chunk - 1) / per_chunk;
}

int chunks_needed(const Network& network, const Plan& plan, int r, std::int64_t length) {
  if (plan.storage == Storage::dense) {
    length = state_units(network, plan);
  }
  const int chunks = chunks_beyond(network, plan, plan.slots[r], row_slots(network, plan, length));
  return plan.pieces > 0 ? std::min(chunks, plan.row_chunks) : chunks;
}

std::vector<std::int32_t> deal_units(const Network& network, const Plan& plan, const RowProfile& rows) {
  const int units = units_per_sm(network, plan);
  const bool counts_pieces = plan.pieces > 0 && plan.order == RowOrder::bank_merged;
  struct Load {
    std::int64_t of_pieces, nnz;
    int sm;
    bool operator>(const Load& other) const {
      return std::tie(of_pieces, nnz, sm) > std::tie(other.of_pieces, other.nnz, other.sm);
    }
  };
  std::priority_queue<Load, std::vector<Load>, std::greater<>> open;  // SMs with room in the classes so far
  std::vector<Load> full;
  for (int sm = 0; sm < plan.sms; ++sm) {
    full.push_back({0, 0, sm});
  }
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(plan.sms) * units, -1);
  std::vector<int> count(plan.sms, 0);
  const int per_class = plan.groups() * plan.sms;
  for (int rank = 0; rank < rows.units(); ++rank) {
    if (rank % per_class == 0) {
      for (const Load& load : full) {
        open.push(load);
      }
      full.clear();
    }
    Load load = open.top();
    open.pop();
    const int place = count[load.sm]++;
    ranks[static_cast<std::size_t>(load.sm) * units + state_place(network, plan, place)] = rank;
    for (int at = 0; at < rows.gates(); ++at) {
      load.nnz += rows.length(rank, at);
    }
    if (counts_pieces) {
      load.of_pieces += pieces_of_unit(network, plan, rows, rank / per_class * rows.gates(), rank);
    }
    const int room = std::min((rank / per_class + 1) * plan.groups(), units);
    (place + 1 < room ? open.push(load) : full.push_back(load));
  }
  return ranks;
}

Tail tail_of(const Network& network, const Plan& plan, const RowProfile& rows, bool exact) {
  const int units = units_per_sm(network, plan);
  Tail tail;
  if (exact) {
    const std::vector<std::int32_t> ranks = deal_units(network, plan, rows);
    for (int sm = 0; sm < plan.sms; ++sm) {
      add_sm(network, plan, rows, &ranks[static_cast<std::size_t>(sm) * units], tail);
    }
    tail.mean /= plan.sms;
    return tail;
  }
  // Two SMs that have neither the longest rows nor the shortest, for the mean, and the one that has the longest.
  const std::array<int, 3> samples{plan.sms / 4, plan.sms * 3 / 4, 0};
  std::vector<std::int32_t> ranks(units);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const int sm = samples[i];
    std::fill(ranks.begin(), ranks.end(), -1);
    for (int place = 0; place < units; ++place) {
      const int rank = place * plan.sms + (place % 2 ? plan.sms - 1 - sm : sm);
      if (rank < rows.units()) {
        ranks[state_place(network, plan, place)] = rank;
      }
    }
    const double of_two = tail.mean;
    add_sm(network, plan, rows, ranks.data(), tail);
    if (i == 2) {
      tail.mean = of_two / 2;
    }
  }
  return tail;
}

}  // namespace onchip
