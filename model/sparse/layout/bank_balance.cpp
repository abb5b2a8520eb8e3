// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/layout/bank_balance.hpp"

#include "model/banks/bank_rule.hpp"
#include "model/sparse/row_assignment.hpp"

#include <array>
#include <random>

namespace onchip {
namespace {

constexpr int kSweeps = 4;       // over all units
constexpr int kCandidates = 32;  // tried for each unit and sweep

class Balancer {
 public:
  Balancer(const SparseGeometry& geometry, const RowProfile& rows, const SparseMatrix& matrix,
           std::vector<std::int32_t> ranks)
      : geometry_(geometry),
        rows_(rows),
        rule_(geometry.plane_unit_bytes),
        gates_(rows.gates()),
        units_per_sm_(geometry_.units_per_sm),
        spread_(geometry_.spread),
        together_(kWarpLanes / geometry_.lanes_per_row / (geometry_.load_phases / spread_)),
        ranks_(std::move(ranks)) {
    for (int length = 0; length <= geometry_.network.hidden; ++length) {
      slots_of_length_.push_back(geometry_.row_slots(length));
    }
    count_loads(matrix);
    for (std::size_t place = 0; place < ranks_.size(); ++place) {
      if (ranks_[place] >= 0) {
        alike_[key(static_cast<int>(place))].push_back(static_cast<int>(place));
      }
    }
  }

  std::vector<std::int32_t> balanced() {
    if (together_ == 1) {
      return ranks_;  // a unit shares its phases with none
    }
    std::mt19937_64 random(1);  // its sequence is part of the standard: the same on every machine
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (int place = 0; place < static_cast<int>(ranks_.size()); ++place) {
        if (ranks_[place] >= 0 && excess(place) > 0) {
          exchange_best(place, random);
        }
      }
    }
    return ranks_;
  }

 private:
  // How often each row needs each set.
  void count_loads(const SparseMatrix& matrix) {
    std::vector<int> set_of_unit(rows_.units());
    for (std::size_t place = 0; place < ranks_.size(); ++place) {
      if (ranks_[place] >= 0) {
        set_of_unit[rows_.unit(ranks_[place])] = rule_.set_of(static_cast<int>(place));
      }
    }
    loads_.assign(static_cast<std::size_t>(rows_.units()) * gates_ * rule_.bank_sets, 0);
    for (int rank = 0; rank < rows_.units(); ++rank) {
      for (int at = 0; at < gates_; ++at) {
        const int row = rows_.gate(rank, at) * rows_.units() + rows_.unit(rank);
        for (std::int64_t e = matrix.row_begin[row]; e < matrix.row_begin[row + 1]; ++e) {
          ++load(rank, at, set_of_unit[matrix.column[e]]);
        }
      }
    }
  }

  std::uint16_t& load(int rank, int at, int set) {
    return loads_[(static_cast<std::size_t>(rank) * gates_ + at) * rule_.bank_sets + set];
  }

  // Where splits are counted, of the unit at `place`: two that are exchanged must have as many.
  int splits(int place) const {
    const int r = place % units_per_sm_ / geometry_.groups() * gates_;
    return geometry_.row_splits > 0 ? splits_of_unit(geometry_, rows_, r, ranks_[place]) : 0;
  }

  // Units that may be exchanged: of the same set and rank class.
  int key(int place) const {
    return (place % units_per_sm_ / geometry_.groups()) * rule_.bank_sets + rule_.set_of(place);
  }

  // Calls `visit` with the ranks of the units at `count` groups from `group` on, in the class and SM of `place`.
  template <typename Visit>
  void for_each_rank(int place, int group, int count, Visit&& visit) const {
    const int in_sm = place % units_per_sm_;
    const int first = in_sm / geometry_.groups() * geometry_.groups() + group;
    for (int at = first; at < std::min(first + count, units_per_sm_); ++at) {
      if (const std::int32_t rank = ranks_[place - in_sm + at]; rank >= 0) {
        visit(rank);
      }
    }
  }
  int group_of(int place) const { return place % units_per_sm_ % geometry_.groups(); }

  // Slots of each of the warp's rows.
  std::array<int, 4> slots_of_warp(int place) const {
    const int groups = kWarpLanes / geometry_.lanes_per_row;
    std::array<int, 4> slots{};
    for_each_rank(place, group_of(place) / groups * groups, groups, [&](int rank) {
      for (int at = 0; at < gates_; ++at) {
        slots[at] = std::max(slots[at], slots_of_length_[static_cast<std::size_t>(rows_.length(rank, at))]);
      }
    });
    const int first = place % units_per_sm_ / geometry_.groups() * gates_;
    for (int at = 0; at < gates_; ++at) {
      slots[at] = std::max(slots[at], geometry_.slots[first + at]);
    }
    return slots;
  }

  // Wavefronts beyond one in every phase, of the rows that share phases with those of the unit at `place`.
  int excess(int place) {
    const std::array<int, 4> slots = slots_of_warp(place);
    int sum = 0;
    std::array<int, kMaxBankSets> needs{};
    for (int at = 0; at < gates_; ++at) {
      for_each_rank(place, group_of(place) / together_ * together_, together_, [&](int rank) {
        const std::uint16_t* const of_row = &load(rank, at, 0);
        for (int set = 0; set < rule_.bank_sets; ++set) {
          needs[set] += of_row[set];
        }
      });
      const int most = *std::max_element(needs.begin(), needs.end());
      sum += std::max(0, most - slots[at] * spread_);
      needs = {};
    }
    return sum;
  }

  void exchange_best(int place, std::mt19937_64& random) {
    const std::vector<int>& candidates = alike_[key(place)];
    const int before = excess(place);
    const std::array<int, 4> slots = slots_of_warp(place);
    int best = -1, best_gain = 0;
    for (int i = 0; i < kCandidates; ++i) {
      const int other = candidates[random() % candidates.size()];
      if (splits(place) != splits(other) || (geometry_.split_chunks > 0 && splits(place) > 0)) {
        continue;  // where splits have chunks, how many goes by all lengths of the SM's cut rows
      }
      const int others = excess(other);
      const std::array<int, 4> other_slots = slots_of_warp(other);
      std::swap(ranks_[place], ranks_[other]);
      const std::array<int, 4> after = slots_of_warp(place), other_after = slots_of_warp(other);
      bool longer = false;
      for (int at = 0; at < gates_; ++at) {
        longer |= after[at] > slots[at] || other_after[at] > other_slots[at];
      }
      const int gain = longer ? 0 : before + others - excess(place) - excess(other);
      if (gain > best_gain) {
        best = other;
        best_gain = gain;
      }
      std::swap(ranks_[place], ranks_[other]);
    }
    if (best >= 0) {
      std::swap(ranks_[place], ranks_[best]);
    }
  }

  const SparseGeometry& geometry_;
  const RowProfile& rows_;
  BankRule rule_;
  int gates_, units_per_sm_;
  int spread_;                        // phases that a group's lanes take part in
  int together_;                      // groups that share phases
  std::vector<std::int32_t> ranks_;   // [sms, units_per_sm]
  std::vector<int> slots_of_length_;  // [hidden + 1], see row_slots
  std::vector<std::uint16_t> loads_;  // [units, gates, bank_sets]
  std::array<std::vector<int>, kMaxRowsPerGroup * kMaxBankSets> alike_;
};

}  // namespace

std::vector<std::int32_t> balance_banks(const SparseGeometry& geometry, const RowProfile& rows,
                                        const SparseMatrix& matrix, std::vector<std::int32_t> ranks) {
  return Balancer(geometry, rows, matrix, std::move(ranks)).balanced();
}

}  // namespace onchip
