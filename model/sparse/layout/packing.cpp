// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/layout/packing.hpp"

#include "model/banks/bank_rule.hpp"
#include "model/banks/conflict_merging.hpp"
#include "model/banks/phase_colouring.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/sparse/layout/delta_order.hpp"
#include "model/sparse/layout/layout.hpp"
#include "model/sparse/row_assignment.hpp"
#include "model/workload/mask.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace onchip {

std::vector<Placed> placed(const SparseLayout& layout, const SparseMatrix& matrix, std::int32_t row) {
  std::vector<Placed> elements;
  for (std::int64_t e = row < 0 ? 0 : matrix.row_begin[row]; row >= 0 && e < matrix.row_begin[row + 1]; ++e) {
    elements.push_back({layout.order[matrix.column[e]], e});
  }
  std::sort(elements.begin(), elements.end(), [](const Placed& a, const Placed& b) { return a.place < b.place; });
  return elements;
}

namespace {

// Non-zeros are told by their number in the matrix. The set of banks that one's column is in.
int set_of(const SparseLayout& layout, const SparseMatrix& matrix, const BankRule& rule, std::int64_t element) {
  return rule.set_of(layout.order[matrix.column[element]]);
}

// Of a row's non-zeros some that stand together, from the begin-th to the end-th: about as many from each set of banks.
std::vector<std::int64_t> stretch_of(const SparseLayout& layout, const SparseMatrix& matrix, const BankRule& rule,
                                     std::vector<std::int64_t> all, std::int64_t begin, std::int64_t end) {
  if (layout.geometry.order != RowOrder::natural) {
    std::array<std::vector<std::int64_t>, kMaxBankSets> of_set;
    for (const std::int64_t e : all) {
      of_set[set_of(layout, matrix, rule, e)].push_back(e);
    }
    all.clear();
    for (std::size_t k = 0; std::ssize(all) < end; ++k) {
      for (const std::vector<std::int64_t>& elements : of_set) {
        if (k < elements.size()) {
          all.push_back(elements[k]);
        }
      }
    }
  }
  return {all.begin() + begin, all.begin() + end};
}

// The non-zeros that stand in a group's row, as SparseLayout::rows counts these. Of one cut into splits each has about
// as many from each set of banks, or it could not be without conflicts, for its slots are full.
std::vector<std::int64_t> elements_in(const SparseLayout& layout, const SparseMatrix& matrix, const BankRule& rule,
                                      std::size_t group_row) {
  const SparseGeometry& geometry = layout.geometry;
  const std::int32_t row = layout.rows[group_row];
  if (row < 0) {
    return {};
  }
  std::vector<std::int64_t> all(static_cast<std::size_t>(matrix.row_begin[row + 1] - matrix.row_begin[row]));
  std::iota(all.begin(), all.end(), matrix.row_begin[row]);
  const std::int64_t begin = geometry.row_splits == 0 ? 0 : layout.begins[group_row];
  const std::int64_t end = geometry.row_splits == 0 ? std::ssize(all) : layout.ends[group_row];
  if (end - begin == std::ssize(all)) {
    return all;
  }
  return stretch_of(layout, matrix, rule, std::move(all), begin, end);
}

// Those that stand in a group's row, in the order of the state: of one that is cut, without its splits, or a split.
std::vector<Placed> placed_in(const SparseLayout& layout, const SparseMatrix& matrix, std::size_t group_row) {
  const std::int32_t row = layout.rows[group_row];
  std::vector<Placed> elements = placed(layout, matrix, row);
  if (layout.geometry.row_splits > 0 && row >= 0) {
    elements.resize(static_cast<std::size_t>(layout.ends[group_row]));
    elements.erase(elements.begin(), elements.begin() + layout.begins[group_row]);
  }
  return elements;
}

// The slots of a warp's rows (SparseLayout::warp_row), which a layout has room for; lanes are those of the warp.
class WarpSlots {
 public:
  WarpSlots(SparseLayout& layout, const SparseMatrix& matrix, std::size_t warp_row)
      : layout_(&layout), matrix_(&matrix), rule_(layout.geometry.plane_unit_bytes), warp_row_(warp_row) {}

  int count() const { return layout_->slots(warp_row_); }
  std::size_t entry(int slot, int lane) const { return layout_->entry(warp_row_, slot, lane); }
  void put(int slot, int lane, std::int64_t element);
  // A zero that reads in a set of banks.
  void put_padding(int slot, int lane, int set);
  // All slots of distances, of what each lane has.
  void put_deltas(const std::array<std::span<const Placed>, kWarpLanes>& lanes);

 private:
  SparseLayout* layout_;
  const SparseMatrix* matrix_;
  BankRule rule_;
  std::size_t warp_row_;
};

void WarpSlots::put(int slot, int lane, std::int64_t element) {
  const std::size_t at = entry(slot, lane);
  layout_->place[at] = layout_->order[matrix_->column[element]];
  layout_->value[at] = matrix_->value[element];
}

void WarpSlots::put_padding(int slot, int lane, int set) {
  // The zero units cover every bank set; take the one in `set`.
  const int zeros = layout_->geometry.state_units;
  const int units_per_set = std::max(1, kBankBytes / rule_.stride);
  int unit = zeros;
  for (int i = 0; i < rule_.bank_sets * units_per_set; ++i) {
    if (rule_.set_of(zeros + i) == set) {
      unit = zeros + i;
      break;
    }
  }
  layout_->place[entry(slot, lane)] = unit;
}

void WarpSlots::put_deltas(const std::array<std::span<const Placed>, kWarpLanes>& lanes) {
  const std::vector<Placed> taken =
      order_deltas(lanes, count(), rule_, layout_->geometry.order != RowOrder::natural, layout_->geometry.state_units);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const std::size_t entry = static_cast<std::size_t>(layout_->first[warp_row_]) * kWarpLanes + i;
    layout_->place[entry] = taken[i].place;
    layout_->value[entry] = taken[i].element < 0 ? 0.0f : matrix_->value[taken[i].element];
  }
}

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

  using LaneAndPhase = std::pair<int, int>;
  using SetCounts = std::array<int, kMaxBankSets>;  // of a phase

  // Of the idle places of so many lanes, the one where a load of the set adds the fewest conflicts.
  std::vector<LaneAndPhase>::iterator least_conflicts(std::vector<LaneAndPhase>& idle,
                                                      const std::vector<SetCounts>& used, int first_lane, int lanes,
                                                      int set) const {
    auto best = idle.end();
    int least = kWarpLanes;
    for (auto at = idle.begin(); at != idle.end(); ++at) {
      if (at->first < first_lane || at->first >= first_lane + lanes) {
        continue;
      }
      const SetCounts& counts = used[at->second];
      const int most = *std::max_element(counts.begin(), counts.begin() + rule_.bank_sets);
      const int more = std::max(most, counts[set] + 1) - most;
      if (2 * more + (most == 1) < least) {
        least = 2 * more + (most == 1);
        best = at;
      }
    }
    return best;
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
      // The elements of each (lane, set), to be placed once the phases are known.
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
      std::vector<SetCounts> used(phases, SetCounts{});
      const auto place = [&](int lane, int phase, std::int64_t element, int set) {
        loaded[static_cast<std::size_t>(lane) * phases + phase] = element;
        sets.load(lane, phase, set);
        ++used[phase][set];
      };
      std::vector<LaneAndPhase> idle;
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
        const auto best = least_conflicts(idle, used, item.group * neighbours, neighbours, item.set);
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
