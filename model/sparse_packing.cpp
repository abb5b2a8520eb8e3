// SPDX-License-Identifier: Apache-2.0
#include "model/sparse_packing.hpp"

#include "model/bank_rule.hpp"
#include "model/conflict_merging.hpp"
#include "model/dealing.hpp"
#include "model/error.hpp"
#include "model/joined_packing.hpp"
#include "model/parallel.hpp"
#include "model/phase_colouring.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <iterator>
#include <numeric>
#include <span>

namespace onchip {
namespace {

constexpr int kWarp = kWarpLanes;

class Packer {
 public:
  Packer(Layout& layout, const SparseMatrix& matrix, const CommonRows& common)
      : layout_(layout), matrix_(matrix), common_(common), plan_(layout.plan), rule_(layout.network, layout.plan) {}

  // First slots of all warps' rows, then what is in them.
  void pack(int threads) {
    const int warp_rows = plan_.sms * plan_.all_rows() * plan_.warps();
    layout_.first.assign(static_cast<std::size_t>(warp_rows) + 1, 0);
    parallel_for(warp_rows, threads, [&](int warp_row) {
      layout_.first[static_cast<std::size_t>(warp_row) + 1] =
          is_joined(warp_row) ? joined_slots_for(warp_row) : slots_for(rows_of(warp_row), rank_of(warp_row));
    });
    std::partial_sum(layout_.first.begin(), layout_.first.end(), layout_.first.begin());
    const std::size_t entries = static_cast<std::size_t>(layout_.first.back()) * kWarp;
    layout_.place.assign(entries, state_units(layout_.network, plan_));
    layout_.value.assign(entries, 0.0f);
    layout_.second_value.assign(plan_.common_rows > 0 ? entries : 0, 0.0f);
    parallel_for(warp_rows, threads, [&](int warp_row) {
      Packer one = *this;
      one.warp_row_ = static_cast<std::size_t>(warp_row);
      if (is_joined(warp_row)) {
        if (rank_of(warp_row) % info(layout_.network.cell).gates == 0) {
          one.pack_joined(warp_row);
        }
        return;
      }
      one.pack_row(warp_row % plan_.warps(), rows_of(warp_row));
    });
  }

 private:
  // Warp rows are numbered [sms][all_rows][warps].
  int rank_of(int warp_row) const { return warp_row / plan_.warps() % plan_.all_rows(); }
  // The rows of its groups.
  const std::int32_t* rows_of(int warp_row) const {
    const std::size_t at = static_cast<std::size_t>(warp_row) / plan_.warps();
    return &layout_.rows[at * plan_.groups() + warp_row % plan_.warps() * groups_per_warp()];
  }

  int sm_of(int warp_row) const { return warp_row / plan_.warps() / plan_.all_rows(); }
  bool is_joined(int warp_row) const { return plan_.joins_rows() && rank_of(warp_row) < plan_.rows_per_group; }

  void pack_row(int warp, const std::int32_t* rows) {
    if (plan_.storage == Storage::dense) {
      pack_dense(warp, rows);
    } else if (plan_.storage == Storage::packed_delta) {
      pack_deltas(warp, rows);
    } else if (plan_.order == RowOrder::natural) {
      pack_natural(warp, rows);
    } else {
      pack_bank_aware(warp, rows);
    }
  }

  // The non-zeros of a group's row that stand here. Of one cut into pieces each has about as many from each set of
  // banks, or it could not be without conflicts, for its slots are full.
  std::vector<Element> elements_at(const std::int32_t* row) const {
    std::vector<Element> all;
    if (*row < 0) {
      return all;
    }
    const std::size_t group_row = row - layout_.rows.data();
    const int r = static_cast<int>(group_row / plan_.groups() % plan_.all_rows());
    if (plan_.is_common(r)) {
      const std::size_t sm = group_row / plan_.groups() / plan_.all_rows();
      return common_.of_pairs[common_.pair(static_cast<int>(sm), r - plan_.first_common(),
                                           static_cast<int>(group_row % plan_.groups()))];
    }
    if (common_.plan != nullptr) {
      for (const std::int64_t element : common_.own[*row]) {
        all.push_back({element});
      }
    } else {
      for (std::int64_t element = matrix_.row_begin[*row]; element < matrix_.row_begin[*row + 1]; ++element) {
        all.push_back({element});
      }
    }
    const std::int64_t begin = plan_.pieces == 0 ? 0 : layout_.begins[group_row];
    const std::int64_t end = plan_.pieces == 0 ? std::ssize(all) : layout_.ends[group_row];
    if (end - begin == std::ssize(all)) {
      return all;
    }
    return stretch_of(std::move(all), begin, end);
  }

  // Of a row's non-zeros some that stand together: about as many from each set of banks.
  std::vector<Element> stretch_of(std::vector<Element> all, std::int64_t begin, std::int64_t end) const {
    if (plan_.order != RowOrder::natural) {
      std::array<std::vector<Element>, kMaxBankSets> of_set;
      for (const Element& e : all) {
        of_set[set_of(e)].push_back(e);
      }
      all.clear();
      for (std::size_t k = 0; std::ssize(all) < end; ++k) {
        for (const std::vector<Element>& elements : of_set) {
          if (k < elements.size()) {
            all.push_back(elements[k]);
          }
        }
      }
    }
    return {all.begin() + begin, all.begin() + end};
  }

  int set_of(const Element& e) const { return rule_.set_of(layout_.order[matrix_.column[e.any()]]); }

  int groups_per_warp() const { return kWarp / plan_.lanes_per_row; }
  int slots() const { return layout_.slots(warp_row_); }

  // Slots of the warp's r-th rows.
  int slots_for(const std::int32_t* rows, int r) const {
    if (plan_.is_common(r)) {
      return plan_.slots_of(r);
    }
    if (plan_.storage == Storage::packed_delta) {
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
    const int chunks = r < plan_.rows_per_group ? chunks_needed(layout_.network, plan_, r, longest)
                                                : chunks_beyond(layout_.network, plan_, plan_.piece_slots,
                                                                row_slots(layout_.network, plan_, longest));
    if (chunks > 0 && !plan_.has_tail()) {
      throw InputError("row " + std::to_string(longest_row) + " has " + std::to_string(longest) +
                       " non-zeros, but the plan's slots hold " + std::to_string(plan_.slots[r] * plan_.lanes_per_row));
    }
    return plan_.slots_of(r) + chunks * chunk_slots(layout_.network, plan_);
  }

  // Slots of the warp's units, with the first of their rows.
  int joined_slots_for(int warp_row) const {
    const int r = rank_of(warp_row), first_group = warp_row % plan_.warps() * groups_per_warp();
    if (r % info(layout_.network.cell).gates != 0) {
      return 0;
    }
    if (plan_.joins_block > 0) {
      return plan_.slots[r];
    }
    int slots = 0;
    for (int group = first_group; group < first_group + groups_per_warp(); group += plan_.joined_groups()) {
      slots = std::max(slots, joined_slots(plan_, r, slots_at(layout_, matrix_, sm_of(warp_row), r, group)));
    }
    const int chunks = chunks_beyond(layout_.network, plan_, plan_.slots[r], slots);
    if (chunks > 0 && !plan_.has_tail()) {
      throw InputError("a unit of SM " + std::to_string(sm_of(warp_row)) + " takes " + std::to_string(slots) +
                       " slots of a lane, but the plan has " + std::to_string(plan_.slots[r]));
    }
    return plan_.slots[r] + chunks * chunk_slots(layout_.network, plan_);
  }

  // Of a group's row, the non-zeros that stand here.
  std::int64_t length_at(const std::int32_t* row) const {
    const std::size_t group_row = row - layout_.rows.data();
    return *row < 0           ? 0
           : plan_.pieces > 0 ? layout_.ends[group_row] - layout_.begins[group_row]
                              : own_length(matrix_, common_, *row);
  }
  std::vector<Placed> placed_at(const std::int32_t* row) const {
    return placed_in(layout_, matrix_, row - layout_.rows.data());
  }

  // The plan's, and as many chunks as the rows turn out to need.
  int delta_slots_for(const std::int32_t* rows, int r) const {
    const int in_registers = plan_.slots_of(r);
    const int room = plan_.pieces == 0          ? in_registers
                     : r < plan_.rows_per_group ? row_room(layout_.network, plan_, r)
                                                : piece_room(layout_.network, plan_);
    int slots = in_registers;
    for (int group = 0; group < groups_per_warp(); ++group) {
      const int needed = delta_slots(placed_at(rows + group));
      if (needed > room * plan_.lanes_per_row && (plan_.pieces > 0 || !plan_.has_tail())) {
        throw InputError("row " + std::to_string(rows[group]) + " needs " + std::to_string(needed) +
                         " slots as packed_delta, but the plan has " + std::to_string(room * plan_.lanes_per_row) +
                         " for it: its non-zeros are too few or too far apart; packed_pair does not mind");
      }
      slots = std::max(slots, (needed + plan_.lanes_per_row - 1) / plan_.lanes_per_row);
    }
    return in_registers +
           chunks_beyond(layout_.network, plan_, in_registers, slots) * chunk_slots(layout_.network, plan_);
  }

  // Lane of the warp.
  int lane_of(int group, int lane) const { return thread_of(layout_.network, plan_, group, lane) % kWarp; }

  void put(int slot, int lane, const Element& e) {
    const std::size_t entry = layout_.entry(warp_row_, slot, lane);
    layout_.place[entry] = layout_.order[matrix_.column[e.any()]];
    layout_.value[entry] = e.first < 0 ? 0.0f : matrix_.value[e.first];
    if (e.second >= 0) {
      layout_.second_value[entry] = matrix_.value[e.second];
    }
  }

  void put_padding(int slot, int lane, int set) {
    // The zero units cover every bank set; take the one in `set`.
    const int zeros = state_units(layout_.network, plan_);
    const int units_per_set = std::max(1, kBankBytes / rule_.stride);
    int unit = zeros;
    for (int i = 0; i < rule_.bank_sets * units_per_set; ++i) {
      if (rule_.set_of(zeros + i) == set) {
        unit = zeros + i;
        break;
      }
    }
    layout_.place[layout_.entry(warp_row_, slot, lane)] = unit;
  }

  // Slot and lane follow from the place in the state: no index is stored.
  void pack_dense(int warp, const std::int32_t* rows) {
    const int lanes = plan_.lanes_per_row;
    const int zeros = state_units(layout_.network, plan_);
    for (int group = 0; group < groups_per_warp(); ++group) {
      const auto lane_at = [&](int lane) { return lane_of(warp * groups_per_warp() + group, lane); };
      for (int slot = 0; slot < slots(); ++slot) {
        for (int lane = 0; lane < lanes; ++lane) {
          layout_.place[layout_.entry(warp_row_, slot, lane_at(lane))] = std::min(slot * lanes + lane, zeros);
        }
      }
      if (rows[group] < 0) {
        continue;
      }
      for (std::int64_t e = matrix_.row_begin[rows[group]]; e < matrix_.row_begin[rows[group] + 1]; ++e) {
        const int place = layout_.order[matrix_.column[e]];
        put(place / lanes, lane_at(place % lanes), {e});
      }
    }
  }

  void pack_natural(int warp, const std::int32_t* rows) {
    for (int group = 0; group < groups_per_warp(); ++group) {
      const std::vector<Element> elements = elements_at(rows + group);
      auto e = elements.begin();
      for (int slot = 0; slot < slots(); ++slot) {
        for (int i = 0; i < plan_.lanes_per_row; ++i) {
          const int lane = lane_of(warp * groups_per_warp() + group, i);
          if (e != elements.end()) {
            put(slot, lane, *e++);
          } else {
            put_padding(slot, lane, lane % rule_.bank_sets);
          }
        }
      }
    }
  }

  void pack_deltas(int warp, const std::int32_t* rows) {
    std::vector<std::vector<Placed>> elements;  // of the groups
    std::array<std::span<const Placed>, kWarp> lanes;
    std::array<int, kWarp> group_of;
    for (int group = 0; group < groups_per_warp(); ++group) {
      const std::vector<Placed>& row = elements.emplace_back(placed_at(rows + group));
      const auto stretches = cut_row(row, plan_.lanes_per_row);
      for (int lane = 0; lane < plan_.lanes_per_row; ++lane) {
        const int of_warp = lane_of(warp * groups_per_warp() + group, lane);
        lanes[of_warp] = stretches[lane];
        group_of[of_warp] = group;
      }
    }
    if (plan_.order != RowOrder::natural) {
      even_out_phases(lanes, group_of, rule_);
    }
    put_deltas(lanes, {});
  }

  void put_deltas(const std::array<std::span<const Placed>, kWarp>& lanes,
                  const std::array<SecondStretch, kWarp>& seconds) {
    const std::vector<Placed> taken = order_deltas(lanes, seconds, slots(), rule_, plan_.order != RowOrder::natural,
                                                   state_units(layout_.network, plan_));
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const std::size_t entry = static_cast<std::size_t>(layout_.first[warp_row_]) * kWarp + i;
      layout_.place[entry] = taken[i].place;
      layout_.value[entry] = taken[i].element < 0 ? 0.0f : matrix_.value[taken[i].element];
    }
  }

  // The groups of a warp that share phases are coloured together: all of them, unless a group has fewer lanes than
  // there are phases.
  void pack_bank_aware(int warp, const std::int32_t* rows) {
    const int spread = spread_over_phases(layout_.network, plan_);
    const int apart = load_phases(layout_.network, plan_) / spread;  // sets of groups that never share a phase
    const int together = groups_per_warp() / apart;
    const int neighbours = plan_.lanes_per_row / spread;  // lanes of a group in one phase
    const int phases = slots() * spread;
    for (int part = 0; part < apart; ++part) {
      PhaseColouring colouring(rule_.bank_sets, together * neighbours, phases);
      // The elements of each (lane, set), to be handed out once the phases are known.
      std::vector<std::vector<Element>> elements(static_cast<std::size_t>(together) * neighbours * rule_.bank_sets);
      const auto of = [&](int lane, int set) -> auto& {
        return elements[lane * rule_.bank_sets + set];
      };
      struct Left {
        Element element;
        int group, set;
      };
      std::vector<Left> left;
      for (int g = 0; g < together; ++g) {
        const std::vector<Element> of_row = elements_at(rows + part * together + g);
        for (std::size_t i = 0; i < of_row.size(); ++i) {
          const Element& e = of_row[i];
          const int set = set_of(e);
          const int lane = g * neighbours + static_cast<int>(i % neighbours);
          if (colouring.add(set, lane)) {
            of(lane, set).push_back(e);
          } else {
            left.push_back({e, g, set});
          }
        }
      }
      const int lanes = together * neighbours;
      std::vector<Element> loaded(static_cast<std::size_t>(lanes) * phases);  // [lanes, phases]
      LoadedSets sets(lanes, neighbours, phases, rule_.bank_sets);
      std::vector<std::array<int, kMaxBankSets>> used(phases, std::array<int, kMaxBankSets>{});
      const auto place = [&](int lane, int phase, const Element& element, int set) {
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
        int least = kWarp;
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
      if (plan_.order == RowOrder::bank_merged) {
        sets.merge_conflicts();
      }
      for (int lane = 0; lane < lanes; ++lane) {
        for (int phase = 0; phase < phases; ++phase) {
          const int slot = phase / spread, of_warp = lane_at(warp, part * together, lane, phase % spread, neighbours);
          if (const Element& element = loaded[sets.first_place(lane, phase)]; element.any() >= 0) {
            put(slot, of_warp, element);
          } else {
            const int set = sets.free_set(phase);
            sets.load(lane, phase, set);
            put_padding(slot, of_warp, set);
          }
        }
      }
    }
  }

  // Calls `visit` with what each lane of a block has, in their order, and its thread.
  template <typename Visit>
  void for_each_lane_of_block(int sm, Visit&& visit) const {
    for (int i = 0; i < plan_.threads; ++i) {
      const int thread = joined_thread(layout_.network, plan_, 0, i);
      visit(layout_.joined[layout_.lane_rows(sm, 0, thread)], thread);
    }
  }

  // Joined rows of which a warp's lanes take one stretch after another. A block's rows may begin in other warps.
  void pack_joined_deltas(int warp_row) {
    const int gates = info(layout_.network.cell).gates, sm = sm_of(warp_row), r = rank_of(warp_row);
    const int warp = warp_row % plan_.warps();
    std::vector<std::vector<Placed>> elements;  // of the rows
    std::array<std::span<const Placed>, kWarp> lanes;
    std::array<SecondStretch, kWarp> seconds;
    std::array<int, kWarp> alike;  // lanes that may exchange what they have
    std::vector<std::span<const Placed>> left(static_cast<std::size_t>(plan_.joined_groups()) * gates);
    const auto take = [&](int row, int room) {
      std::span<const Placed> stretch;
      if (row >= 0) {
        stretch = first_of_row(left[row], room);
        left[row] = left[row].subspan(stretch.size());
      }
      return stretch;
    };
    const auto load = [&](int first_group, int row) {
      const std::size_t group_row = layout_.group_row(sm, r + row % gates, first_group + row / gates);
      left[row] = elements.emplace_back(placed_in(layout_, matrix_, group_row));
    };
    const auto add = [&](const LaneRows& of, int thread, int set) {
      const std::span<const Placed> first = take(of.first, of.of_first), second = take(of.second, of.of_second);
      if (thread / kWarp != warp) {
        return;
      }
      const int lane = thread % kWarp;
      lanes[lane] = first;
      if (of.second >= 0) {
        seconds[lane] = {second, of.begin};
      }
      const bool has_whole = of.first >= 0 && of.second < 0;
      alike[lane] = has_whole ? set * static_cast<int>(left.size()) + of.first : -1 - lane;
    };
    if (plan_.joins_block > 0) {
      std::vector<bool> has(left.size(), false);
      for_each_lane_of_block(sm, [&](const LaneRows& of, int thread) {
        for (const int row : {of.first, of.second}) {
          if (row >= 0 && thread / kWarp == warp && !has[row]) {
            has[row] = true;
            load(0, row);
          }
        }
      });
      for_each_lane_of_block(sm, [&](const LaneRows& of, int thread) { add(of, thread, 0); });
    }
    for (int set = 0; plan_.joins_block == 0 && set < groups_per_warp(); ++set) {
      const int group = warp * groups_per_warp() + set;
      for (int row = 0; row < gates; ++row) {
        load(group, row);
      }
      for (int i = 0; i < plan_.lanes_per_row; ++i) {
        const int thread = joined_thread(layout_.network, plan_, group, i);
        add(layout_.joined[layout_.lane_rows(sm, r, thread)], thread, set);
      }
    }
    if (plan_.order != RowOrder::natural) {
      even_out_phases(lanes, alike, rule_);
    }
    put_deltas(lanes, seconds);
  }

  // The non-zeros of the rows whose lanes are filled together: of units, or what this warp has of its block's.
  std::vector<std::vector<PlacedElement>> joined_elements(int sm, int r, int first_group, int groups, int warp) const {
    const int gates = info(layout_.network.cell).gates;
    std::vector<std::int64_t> before(static_cast<std::size_t>(groups) * gates, 0), here(before);
    if (plan_.joins_block > 0) {
      for_each_lane_of_block(sm, [&](const LaneRows& of, int thread) {
        auto& counts = thread / kWarp < warp ? before : here;
        if (thread / kWarp <= warp && of.first >= 0) {
          counts[of.first] += of.of_first;
        }
        if (thread / kWarp <= warp && of.second >= 0) {
          counts[of.second] += of.of_second;
        }
      });
    }
    std::vector<std::vector<PlacedElement>> rows(before.size());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (plan_.joins_block > 0 && here[row] == 0) {
        continue;
      }
      const int group = first_group + static_cast<int>(row) / gates, at = static_cast<int>(row) % gates;
      std::vector<Element> elements = elements_at(&layout_.rows[layout_.group_row(sm, r + at, group)]);
      if (plan_.joins_block > 0 && here[row] < std::ssize(elements)) {
        elements = stretch_of(std::move(elements), before[row], before[row] + here[row]);
      }
      for (const Element& e : elements) {
        rows[row].push_back({e, set_of(e)});
      }
    }
    return rows;
  }

  // Of pairs, lanes that take part in the same phases are filled together: of those groups that share phases
  // (pack_bank_aware), in turn the first lanes, the next, ...; of a block's rows all lanes of a warp.
  void pack_joined(int warp_row) {
    if (plan_.storage == Storage::packed_delta) {
      return pack_joined_deltas(warp_row);
    }
    const int gates = info(layout_.network.cell).gates, sm = sm_of(warp_row), r = rank_of(warp_row);
    const bool of_block = plan_.joins_block > 0;
    const int warp = warp_row % plan_.warps(), phases = load_phases(layout_.network, plan_);
    const int joined = std::min(kWarp, plan_.lanes_of_joined());  // lanes
    const int spread = std::min(phases, joined), neighbours = joined / spread, lanes_of_turn = kWarp / phases;
    const int apart = phases / spread, together = groups_per_warp() / apart;
    for (int part = 0; part < apart; ++part) {
      const int first_group = warp * groups_per_warp() + part * together;
      const auto thread_at = [&](int lane, int turn) {
        return of_block ? warp * kWarp + turn * lanes_of_turn + lane
                        : joined_thread(layout_.network, plan_, first_group + lane / neighbours,
                                        lane % neighbours * spread + turn);
      };
      std::vector<std::vector<JoinedLane>> lanes(static_cast<std::size_t>(spread));  // [turns, lanes_of_turn]
      for (int turn = 0; turn < spread; ++turn) {
        for (int lane = 0; lane < lanes_of_turn; ++lane) {
          const LaneRows& of = layout_.joined[layout_.lane_rows(sm, r, thread_at(lane, turn))];
          const int first_row = lane / neighbours * gates;
          lanes[turn].push_back({.first = of.first < 0 ? -1 : first_row + of.first,
                                 .second = of.second < 0 ? -1 : first_row + of.second,
                                 .of_first = of.of_first,
                                 .of_second = of.of_second,
                                 .begin = of.second < 0 ? slots() : of.begin});
        }
      }
      const std::vector<std::vector<PlacedElement>> rows = of_block
                                                               ? joined_elements(sm, r, 0, plan_.groups(), warp)
                                                               : joined_elements(sm, r, first_group, together, warp);
      const std::vector<std::vector<std::vector<PlacedElement>>> of_turns = deal_to_turns(lanes, rows, rule_.bank_sets);
      for (int turn = 0; turn < spread; ++turn) {
        const std::vector<PlacedElement> loaded =
            plan_.order == RowOrder::natural ? pack_in_order(lanes[turn], of_turns[turn], slots())
                                             : pack_joined_lanes(lanes[turn], of_turns[turn], slots(), rule_.bank_sets,
                                                                 plan_.order == RowOrder::bank_merged);
        for (std::size_t i = 0; i < loaded.size(); ++i) {
          const int lane = thread_at(static_cast<int>(i) / slots(), turn) % kWarp, slot = static_cast<int>(i) % slots();
          if (loaded[i].element.any() >= 0) {
            put(slot, lane, loaded[i].element);
          } else {
            put_padding(slot, lane, loaded[i].set);
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

  Layout& layout_;
  const SparseMatrix& matrix_;
  const CommonRows& common_;
  const Plan& plan_;
  BankRule rule_;
  std::size_t warp_row_ = 0;  // that is being filled
};

}  // namespace

// The non-zeros of a row of W that no pair has.
std::int64_t own_length(const SparseMatrix& matrix, const CommonRows& common, std::int32_t row) {
  return common.plan == nullptr ? matrix.row_begin[row + 1] - matrix.row_begin[row] : std::ssize(common.own[row]);
}

// What stands in a row, in the order of the state.
std::vector<Placed> placed(const Layout& layout, const SparseMatrix& matrix, std::int32_t row) {
  std::vector<Placed> elements;
  for (std::int64_t e = row < 0 ? 0 : matrix.row_begin[row]; row >= 0 && e < matrix.row_begin[row + 1]; ++e) {
    elements.push_back({layout.order[matrix.column[e]], e});
  }
  std::sort(elements.begin(), elements.end(), [](const Placed& a, const Placed& b) { return a.place < b.place; });
  return elements;
}

std::vector<Placed> placed_in(const Layout& layout, const SparseMatrix& matrix, std::size_t group_row) {
  const std::int32_t row = layout.rows[group_row];
  std::vector<Placed> elements = placed(layout, matrix, row);
  if (layout.plan.pieces > 0 && row >= 0) {
    elements.resize(static_cast<std::size_t>(layout.ends[group_row]));
    elements.erase(elements.begin(), elements.begin() + layout.begins[group_row]);
  }
  return elements;
}

std::vector<std::int64_t> slots_at(const Layout& layout, const SparseMatrix& matrix, int sm, int r, int group) {
  const int gates = info(layout.network.cell).gates;
  std::vector<std::int64_t> slots;
  for (int i = 0; i < layout.plan.joined_groups() * gates; ++i) {
    const std::size_t group_row = layout.group_row(sm, r + i % gates, group + i / gates);
    const std::int32_t row = layout.rows[group_row];
    if (layout.plan.storage == Storage::packed_delta) {
      slots.push_back(delta_slots(placed_in(layout, matrix, group_row)));
    } else {
      slots.push_back(row < 0                  ? 0
                      : layout.plan.pieces > 0 ? layout.ends[group_row] - layout.begins[group_row]
                                               : matrix.row_begin[row + 1] - matrix.row_begin[row]);
    }
  }
  return slots;
}

void pack_rows(Layout& layout, const SparseMatrix& matrix, const CommonRows& common, int threads) {
  Packer(layout, matrix, common).pack(threads);
}

}  // namespace onchip
