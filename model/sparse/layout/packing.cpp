// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/layout/packing.hpp"

#include "model/banks/bank_rule.hpp"
#include "model/banks/conflict_merging.hpp"
#include "model/banks/phase_colouring.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/sparse/layout/row_elements.hpp"
#include "model/sparse/layout/warp_slots.hpp"
#include "model/sparse/row_assignment.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <iterator>
#include <numeric>
#include <span>

namespace onchip {
namespace {

class Packer {
 public:
  Packer(SparseLayout& layout, const SparseMatrix& matrix)
      : layout_(layout),
        matrix_(matrix),
        geometry_(layout.geometry),
        rule_(layout.geometry.plane_unit_bytes),
        into_(layout, matrix, 0) {}

  // First slots of all warps' rows, then what is in them.
  void pack(int threads) {
    const int warp_rows = geometry_.sms * geometry_.all_rows() * geometry_.warps();
    layout_.first.assign(static_cast<std::size_t>(warp_rows) + 1, 0);
    parallel_for(warp_rows, threads, [&](int warp_row) {
      layout_.first[static_cast<std::size_t>(warp_row) + 1] = slots_for(rows_of(warp_row), rank_of(warp_row));
    });
    std::partial_sum(layout_.first.begin(), layout_.first.end(), layout_.first.begin());
    const std::size_t entries = static_cast<std::size_t>(layout_.first.back()) * kWarpLanes;
    layout_.place.assign(entries, geometry_.state_units);
    layout_.value.assign(entries, 0.0f);
    parallel_for(warp_rows, threads, [&](int warp_row) {
      Packer one = *this;
      one.into_ = WarpSlots(layout_, matrix_, static_cast<std::size_t>(warp_row));
      one.pack_row(warp_row % geometry_.warps(), rows_of(warp_row));
    });
  }

 private:
  // Warp rows are numbered [sms][all_rows][warps].
  int rank_of(int warp_row) const { return warp_row / geometry_.warps() % geometry_.all_rows(); }
  // The rows of its groups.
  const std::int32_t* rows_of(int warp_row) const {
    const std::size_t at = static_cast<std::size_t>(warp_row) / geometry_.warps();
    return &layout_.rows[at * geometry_.groups() + warp_row % geometry_.warps() * groups_per_warp()];
  }

  void pack_row(int warp, const std::int32_t* rows) {
    if (geometry_.storage == Storage::dense) {
      pack_dense(warp, rows);
    } else if (geometry_.storage == Storage::packed_delta) {
      pack_deltas(warp, rows);
    } else if (geometry_.order == RowOrder::natural) {
      pack_natural(warp, rows);
    } else {
      pack_bank_aware(warp, rows);
    }
  }

  int groups_per_warp() const { return kWarpLanes / geometry_.lanes_per_row; }
  int slots() const { return into_.count(); }
  std::vector<std::int64_t> elements_at(const std::int32_t* row) const {
    return elements_in(layout_, matrix_, rule_, row - layout_.rows.data());
  }

  // Slots of the warp's r-th rows.
  int slots_for(const std::int32_t* rows, int r) const {
    if (geometry_.storage == Storage::packed_delta) {
      return delta_slots_for(rows, r);
    }
    std::int64_t longest = 0;
    std::int32_t longest_row = 0;
    for (int group = 0; group < groups_per_warp(); ++group) {
      const std::int32_t row = rows[group];
      if (row >= 0 && length_at(rows + group) >= longest) {
        longest = length_at(rows + group);
        longest_row = row;
      }
    }
    const int chunks = r < geometry_.rows_per_group
                           ? chunks_needed(geometry_, r, longest)
                           : chunks_beyond(geometry_, geometry_.split_slots, geometry_.row_slots(longest));
    if (chunks > 0 && !geometry_.has_overflow()) {
      throw InputError("row " + std::to_string(longest_row) + " has " + std::to_string(longest) +
                       " non-zeros, but the plan's slots hold " +
                       std::to_string(geometry_.slots[r] * geometry_.lanes_per_row));
    }
    return geometry_.slots_of(r) + chunks * geometry_.chunk_slots;
  }

  // Of a group's row, the non-zeros that stand here.
  std::int64_t length_at(const std::int32_t* row) const {
    const std::size_t group_row = row - layout_.rows.data();
    return *row < 0                   ? 0
           : geometry_.row_splits > 0 ? layout_.ends[group_row] - layout_.begins[group_row]
                                      : matrix_.row_begin[*row + 1] - matrix_.row_begin[*row];
  }
  std::vector<Placed> placed_at(const std::int32_t* row) const {
    return placed_in(layout_, matrix_, row - layout_.rows.data());
  }

  // The plan's, and as many chunks as the rows turn out to need.
  int delta_slots_for(const std::int32_t* rows, int r) const {
    const int in_registers = geometry_.slots_of(r);
    const int room = geometry_.row_splits == 0      ? in_registers
                     : r < geometry_.rows_per_group ? geometry_.row_room(r)
                                                    : geometry_.split_room();
    int slots = in_registers;
    for (int group = 0; group < groups_per_warp(); ++group) {
      const int needed = delta_slots(placed_at(rows + group));
      if (needed > room * geometry_.lanes_per_row && (geometry_.row_splits > 0 || !geometry_.has_overflow())) {
        throw InputError("row " + std::to_string(rows[group]) + " needs " + std::to_string(needed) +
                         " slots as packed_delta, but the plan has " + std::to_string(room * geometry_.lanes_per_row) +
                         " for it: its non-zeros are too few or too far apart; packed_pair does not mind");
      }
      slots = std::max(slots, (needed + geometry_.lanes_per_row - 1) / geometry_.lanes_per_row);
    }
    return in_registers + chunks_beyond(geometry_, in_registers, slots) * geometry_.chunk_slots;
  }

  // Lane of the warp.
  int lane_of(int group, int lane) const { return geometry_.thread_of(group, lane) % kWarpLanes; }

  // Slot and lane follow from the place in the state: no index is stored.
  void pack_dense(int warp, const std::int32_t* rows) {
    const int lanes = geometry_.lanes_per_row;
    const int zeros = geometry_.state_units;
    for (int group = 0; group < groups_per_warp(); ++group) {
      const auto lane_at = [&](int lane) { return lane_of(warp * groups_per_warp() + group, lane); };
      for (int slot = 0; slot < slots(); ++slot) {
        for (int lane = 0; lane < lanes; ++lane) {
          layout_.place[into_.entry(slot, lane_at(lane))] = std::min(slot * lanes + lane, zeros);
        }
      }
      if (rows[group] < 0) {
        continue;
      }
      for (std::int64_t e = matrix_.row_begin[rows[group]]; e < matrix_.row_begin[rows[group] + 1]; ++e) {
        const int place = layout_.order[matrix_.column[e]];
        into_.put(place / lanes, lane_at(place % lanes), e);
      }
    }
  }

  void pack_natural(int warp, const std::int32_t* rows) {
    for (int group = 0; group < groups_per_warp(); ++group) {
      const std::vector<std::int64_t> elements = elements_at(rows + group);
      auto e = elements.begin();
      for (int slot = 0; slot < slots(); ++slot) {
        for (int i = 0; i < geometry_.lanes_per_row; ++i) {
          const int lane = lane_of(warp * groups_per_warp() + group, i);
          if (e != elements.end()) {
            into_.put(slot, lane, *e++);
          } else {
            into_.put_padding(slot, lane, lane % rule_.bank_sets);
          }
        }
      }
    }
  }

  void pack_deltas(int warp, const std::int32_t* rows) {
    std::vector<std::vector<Placed>> elements;  // of the groups
    std::array<std::span<const Placed>, kWarpLanes> lanes;
    std::array<int, kWarpLanes> group_of;
    for (int group = 0; group < groups_per_warp(); ++group) {
      const std::vector<Placed>& row = elements.emplace_back(placed_at(rows + group));
      const auto stretches = cut_row(row, geometry_.lanes_per_row);
      for (int lane = 0; lane < geometry_.lanes_per_row; ++lane) {
        const int of_warp = lane_of(warp * groups_per_warp() + group, lane);
        lanes[of_warp] = stretches[lane];
        group_of[of_warp] = group;
      }
    }
    if (geometry_.order != RowOrder::natural) {
      even_out_phases(lanes, group_of, rule_);
    }
    into_.put_deltas(lanes);
  }

  // The groups of a warp that share phases are coloured together: all of them, unless a group has fewer lanes than
  // there are phases.
  void pack_bank_aware(int warp, const std::int32_t* rows) {
    const int spread = geometry_.spread;
    const int apart = geometry_.load_phases / spread;  // sets of groups that never share a phase
    const int together = groups_per_warp() / apart;
    const int neighbours = geometry_.lanes_per_row / spread;  // lanes of a group in one phase
    const int phases = slots() * spread;
    for (int part = 0; part < apart; ++part) {
      PhaseColouring colouring(rule_.bank_sets, together * neighbours, phases);
      // The elements of each (lane, set), to be handed out once the phases are known.
      std::vector<std::vector<std::int64_t>> elements(static_cast<std::size_t>(together) * neighbours *
                                                      rule_.bank_sets);
      const auto of = [&](int lane, int set) -> auto& {
        return elements[lane * rule_.bank_sets + set];
      };
      struct Left {
        std::int64_t element;
        int group, set;
      };
      std::vector<Left> left;
      for (int g = 0; g < together; ++g) {
        const std::vector<std::int64_t> of_row = elements_at(rows + part * together + g);
        for (std::size_t i = 0; i < of_row.size(); ++i) {
          const std::int64_t e = of_row[i];
          const int set = set_of(layout_, matrix_, rule_, e);
          const int lane = g * neighbours + static_cast<int>(i % neighbours);
          if (colouring.add(set, lane)) {
            of(lane, set).push_back(e);
          } else {
            left.push_back({e, g, set});
          }
        }
      }
      const int lanes = together * neighbours;
      std::vector<std::int64_t> loaded(static_cast<std::size_t>(lanes) * phases, -1);  // [lanes, phases]: -1: nothing
      LoadedSets sets(lanes, neighbours, phases, rule_.bank_sets);
      std::vector<std::array<int, kMaxBankSets>> used(phases, std::array<int, kMaxBankSets>{});
      const auto place = [&](int lane, int phase, std::int64_t element, int set) {
        loaded[static_cast<std::size_t>(lane) * phases + phase] = element;
        sets.load(lane, phase, set);
        ++used[phase][set];
      };
      std::vector<std::pair<int, int>> idle;  // lane, phase
      for (int lane = 0; lane < lanes; ++lane) {
        for (int phase = 0; phase < phases; ++phase) {
          if (const int set = colouring.set_at(lane, phase); set != PhaseColouring::kNone) {
            place(lane, phase, of(lane, set).back(), set);
            of(lane, set).pop_back();
          } else {
            idle.emplace_back(lane, phase);
          }
        }
      }
      // What no phase can serve without a conflict: where one more costs least.
      for (const Left& item : left) {
        auto best = idle.end();
        int least = kWarpLanes;
        for (auto at = idle.begin(); at != idle.end(); ++at) {
          if (at->first / neighbours != item.group) {
            continue;
          }
          const auto& counts = used[at->second];
          const int most = *std::max_element(counts.begin(), counts.begin() + rule_.bank_sets);
          const int more = std::max(most, counts[item.set] + 1) - most;
          if (2 * more + (most == 1) < least) {
            least = 2 * more + (most == 1);
            best = at;
          }
        }
        assert(best != idle.end());
        place(best->first, best->second, item.element, item.set);
        idle.erase(best);
      }
      if (geometry_.order == RowOrder::bank_merged) {
        sets.merge_conflicts();
      }
      for (int lane = 0; lane < lanes; ++lane) {
        for (int phase = 0; phase < phases; ++phase) {
          const int slot = phase / spread, of_warp = lane_at(warp, part * together, lane, phase % spread, neighbours);
          if (const std::int64_t element = loaded[sets.first_place(lane, phase)]; element >= 0) {
            into_.put(slot, of_warp, element);
          } else {
            const int set = sets.free_set(phase);
            sets.load(lane, phase, set);
            into_.put_padding(slot, of_warp, set);
          }
        }
      }
    }
  }

  // The warp's lane that is lane `lane` of a phase, the `turn`-th in which its group takes part; `group`: the first of
  // the phase.
  int lane_at(int warp, int group, int lane, int turn, int neighbours) const {
    return lane_of(warp * groups_per_warp() + group + lane / neighbours, turn * neighbours + lane % neighbours);
  }

  SparseLayout& layout_;
  const SparseMatrix& matrix_;
  const SparseGeometry& geometry_;
  BankRule rule_;
  WarpSlots into_;  // those that are being filled
};

}  // namespace

void pack_rows(SparseLayout& layout, const SparseMatrix& matrix, int threads) {
  Packer(layout, matrix).pack(threads);
}

}  // namespace onchip
