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
int group_of(const SparseGeometry& geometry, int place) {
  const int groups = geometry.groups();
  const int in_class = place % groups;
  const bool reversed = place / groups % 2 && (place / groups + 1) * groups <= geometry.units_per_sm;
  return reversed ? groups - 1 - in_class : in_class;
}

int state_place(const SparseGeometry& geometry, int place) {
  return place / geometry.groups() * geometry.groups() + group_of(geometry, place);
}

// [splits, warps]: chunks of the splits of one SM, whose units have these ranks.
std::vector<int> chunks_of_splits(const SparseGeometry& geometry, const RowProfile& rows, const std::int32_t* ranks) {
  if (geometry.row_splits == 0) {
    return {};
  }
  const int units = geometry.units_per_sm, gates = rows.gates(), groups = geometry.groups();
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(geometry.rows_per_group) * groups, 0);
  for (int r = 0; r < geometry.rows_per_group; ++r) {
    for (int group = 0; group < groups && r / gates * groups + group < units; ++group) {
      const std::int32_t rank = ranks[r / gates * groups + group];
      lengths[r * groups + group] = rank < 0 ? 0 : rows.length(rank, r % gates);
    }
  }
  std::vector<Split> splits = assign_splits(geometry, lengths);
  std::vector<int> chunks(static_cast<std::size_t>(geometry.row_splits) * geometry.warps(), 0);
  for (int number = 0; number < geometry.row_splits * groups; ++number) {
    int& of_warp = chunks[number / groups * geometry.warps() + number % groups / (groups / geometry.warps())];
    of_warp = std::max(of_warp, chunks_beyond(geometry, geometry.split_slots, splits[number].slots));
  }
  return chunks;
}

// Adds the overflow of one SM, whose units have these ranks.
void add_sm(const SparseGeometry& geometry, const RowProfile& rows, const std::int32_t* ranks, Overflow& overflow) {
  const int units = geometry.units_per_sm;
  const int gates = rows.gates();
  const int groups = geometry.groups();
  const int groups_per_warp = groups / geometry.warps();
  int in_sm = 0;
  const std::vector<int> of_splits = chunks_of_splits(geometry, rows, ranks);
  for (int warp = 0; warp < geometry.warps(); ++warp) {
    int in_warp = 0;
    for (int split = 0; split < geometry.row_splits; ++split) {
      in_warp += of_splits[split * geometry.warps() + warp];
    }
    for (int r = 0; r < geometry.rows_per_group; ++r) {
      int longest = 0;
      const int first = r / gates * groups + warp * groups_per_warp;
      for (int at = first; at < std::min(units, first + groups_per_warp); ++at) {
        if (ranks[at] >= 0) {
          longest = std::max(longest, rows.length(ranks[at], r % gates));
        }
      }
      in_warp += chunks_needed(geometry, r, longest);
    }
    in_sm += in_warp;
    overflow.longest = std::max(overflow.longest, in_warp);
  }
  overflow.mean += in_sm;
  overflow.fullest = std::max(overflow.fullest, in_sm);
}

}  // namespace

int splits_of_row(const SparseGeometry& geometry, int r, std::int64_t length) {
  const std::int64_t room = std::int64_t{geometry.row_room(r)} * geometry.lanes_per_row;
  const std::int64_t beyond = geometry.slots_of_lanes(length) - room;
  const std::int64_t of_split = std::int64_t{geometry.split_room()} * geometry.lanes_per_row;
  return static_cast<int>(std::max<std::int64_t>(0, (beyond + of_split - 1) / of_split));
}

int splits_of_unit(const SparseGeometry& geometry, const RowProfile& rows, int r, int rank) {
  int splits = 0;
  for (int at = 0; at < rows.gates(); ++at) {
    splits += splits_of_row(geometry, r + at, rows.length(rank, at));
  }
  return splits;
}

std::vector<Split> assign_splits(const SparseGeometry& geometry, const std::vector<std::int64_t>& lengths) {
  const int groups = geometry.groups(), lanes = geometry.lanes_per_row;
  struct RowToSplit {
    int r, group, splits, slots;  // of each split
    std::int64_t beyond;
  };
  std::vector<RowToSplit> cut;
  int total = 0;
  for (int r = 0; r < geometry.rows_per_group; ++r) {
    for (int group = 0; group < groups; ++group) {
      const std::int64_t length = lengths[static_cast<std::size_t>(r) * groups + group];
      if (const int splits = splits_of_row(geometry, r, length); splits > 0) {
        const std::int64_t kept = std::int64_t{geometry.row_room(r)} * lanes;
        const std::int64_t beyond = geometry.slots_of_lanes(length) - kept;
        const std::int64_t of_all = std::int64_t{splits} * lanes;
        const int alike = static_cast<int>((beyond + of_all - 1) / of_all);
        cut.push_back({r, group, splits, geometry.split_chunks > 0 ? alike : geometry.split_slots, beyond});
        total += splits;
      }
    }
  }
  const int places = geometry.row_splits * groups;
  std::vector<Split> splits;
  if (geometry.split_chunks > 0) {
    std::stable_sort(cut.begin(), cut.end(),
                     [](const RowToSplit& a, const RowToSplit& b) { return a.slots < b.slots; });
    splits.resize(static_cast<std::size_t>(std::max(0, places - total)));
  }
  for (const RowToSplit& row : cut) {
    for (int number = 0; number < row.splits; ++number) {
      const std::int64_t left = row.beyond - std::int64_t{number} * row.slots * lanes;
      const int slots = static_cast<int>(std::min<std::int64_t>(row.slots, (left + lanes - 1) / lanes));
      splits.push_back({row.r, row.group, number, row.splits, slots});
    }
  }
  splits.resize(static_cast<std::size_t>(std::max(places, total)));
  return splits;
}

int most_splits(const SparseGeometry& geometry, const RowProfile& rows, const std::vector<std::int32_t>& ranks) {
  const int units = geometry.units_per_sm, gates = rows.gates();
  int most = 0;
  for (int sm = 0; sm < geometry.sms; ++sm) {
    int in_sm = 0;
    for (int place = 0; place < units; ++place) {
      const std::int32_t rank = ranks[static_cast<std::size_t>(sm) * units + place];
      in_sm += rank < 0 ? 0 : splits_of_unit(geometry, rows, place / geometry.groups() * gates, rank);
    }
    most = std::max(most, in_sm);
  }
  return most;
}

int chunks_beyond(const SparseGeometry& geometry, int in_registers, int slots) {
  const int per_chunk = geometry.chunk_slots;
  return std::max(0, slots - in_registers + per_chunk - 1) / per_chunk;
}

int chunks_needed(const SparseGeometry& geometry, int r, std::int64_t length) {
  if (geometry.storage == Storage::dense) {
    length = geometry.state_units;
  }
  const int chunks = chunks_beyond(geometry, geometry.slots[r], geometry.row_slots(length));
  return geometry.row_splits > 0 ? std::min(chunks, geometry.row_chunks) : chunks;
}

std::vector<std::int32_t> assign_units(const SparseGeometry& geometry, const RowProfile& rows) {
  const int units = geometry.units_per_sm;
  const bool counts_splits = geometry.row_splits > 0 && geometry.order == RowOrder::bank_merged;
  struct Load {
    std::int64_t of_splits, nnz;
    int sm;
    bool operator>(const Load& other) const {
      return std::tie(of_splits, nnz, sm) > std::tie(other.of_splits, other.nnz, other.sm);
    }
  };
  std::priority_queue<Load, std::vector<Load>, std::greater<>> open;  // SMs with room in the classes so far
  std::vector<Load> full;
  for (int sm = 0; sm < geometry.sms; ++sm) {
    full.push_back({0, 0, sm});
  }
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(geometry.sms) * units, -1);
  std::vector<int> count(geometry.sms, 0);
  const int per_class = geometry.groups() * geometry.sms;
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
    ranks[static_cast<std::size_t>(load.sm) * units + state_place(geometry, place)] = rank;
    for (int at = 0; at < rows.gates(); ++at) {
      load.nnz += rows.length(rank, at);
    }
    if (counts_splits) {
      load.of_splits += splits_of_unit(geometry, rows, rank / per_class * rows.gates(), rank);
    }
    const int room = std::min((rank / per_class + 1) * geometry.groups(), units);
    (place + 1 < room ? open.push(load) : full.push_back(load));
  }
  return ranks;
}

Overflow overflow_of(const SparseGeometry& geometry, const RowProfile& rows, bool exact) {
  const int units = geometry.units_per_sm;
  Overflow overflow;
  if (exact) {
    const std::vector<std::int32_t> ranks = assign_units(geometry, rows);
    for (int sm = 0; sm < geometry.sms; ++sm) {
      add_sm(geometry, rows, &ranks[static_cast<std::size_t>(sm) * units], overflow);
    }
    overflow.mean /= geometry.sms;
    return overflow;
  }
  // The two for the mean, and the one that has the longest rows.
  const std::array<int, 2> typical = sampled_sms(geometry);
  const std::array<int, 3> samples{typical[0], typical[1], 0};
  std::vector<std::int32_t> ranks(units);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const int sm = samples[i];
    std::fill(ranks.begin(), ranks.end(), -1);
    for (int place = 0; place < units; ++place) {
      const int rank = sampled_rank(geometry, sm, place);
      if (rank < rows.units()) {
        ranks[state_place(geometry, place)] = rank;
      }
    }
    const double of_two = overflow.mean;
    add_sm(geometry, rows, ranks.data(), overflow);
    if (i == 2) {
      overflow.mean = of_two / 2;
    }
  }
  return overflow;
}

}  // namespace onchip
