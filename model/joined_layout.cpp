// SPDX-License-Identifier: Apache-2.0
#include "model/joined_layout.hpp"

#include "model/dealing.hpp"
#include "model/error.hpp"
#include "model/joined_block.hpp"
#include "model/joined_packing.hpp"
#include "model/row_elements.hpp"
#include "model/warp_slots.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace onchip {
namespace {

constexpr int kWarp = kWarpLanes;

// What rows that are joined, of groups from `group` on whose r-th are the first, take beside their pieces: slots of all
// lanes.
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

// Fills the slots of a warp's units.
class JoinedPacker {
 public:
  JoinedPacker(Layout& layout, const SparseMatrix& matrix, int sm, int r, int warp)
      : layout_(layout),
        matrix_(matrix),
        plan_(layout.plan),
        rule_(layout.network, layout.plan),
        gates_(info(layout.network.cell).gates),
        groups_per_warp_(kWarp / plan_.lanes_per_row),
        sm_(sm),
        r_(r),
        warp_(warp),
        into_(layout, matrix, layout.warp_row(sm, r, warp)) {}

  // Of pairs, lanes that take part in the same phases are filled together: of those groups that share phases
  // (pack_bank_aware), in turn the first lanes, the next, ...; of a block's rows all lanes of a warp.
  void pack() {
    if (plan_.storage == Storage::packed_delta) {
      return pack_deltas();
    }
    const bool of_block = plan_.joins_block > 0;
    const int phases = load_phases(layout_.network, plan_);
    const int joined = std::min(kWarp, plan_.lanes_of_joined());  // lanes
    const int spread = std::min(phases, joined), neighbours = joined / spread, lanes_of_turn = kWarp / phases;
    const int apart = phases / spread, together = groups_per_warp_ / apart;
    for (int part = 0; part < apart; ++part) {
      const int first_group = warp_ * groups_per_warp_ + part * together;
      const auto thread_at = [&](int lane, int turn) {
        return of_block ? warp_ * kWarp + turn * lanes_of_turn + lane
                        : joined_thread(layout_.network, plan_, first_group + lane / neighbours,
                                        lane % neighbours * spread + turn);
      };
      std::vector<std::vector<JoinedLane>> lanes(static_cast<std::size_t>(spread));  // [turns, lanes_of_turn]
      for (int turn = 0; turn < spread; ++turn) {
        for (int lane = 0; lane < lanes_of_turn; ++lane) {
          const LaneRows& of = layout_.joined[layout_.lane_rows(sm_, r_, thread_at(lane, turn))];
          const int first_row = lane / neighbours * gates_;
          lanes[turn].push_back({.first = of.first < 0 ? -1 : first_row + of.first,
                                 .second = of.second < 0 ? -1 : first_row + of.second,
                                 .of_first = of.of_first,
                                 .of_second = of.of_second,
                                 .begin = of.second < 0 ? into_.count() : of.begin});
        }
      }
      const std::vector<std::vector<PlacedElement>> rows =
          of_block ? joined_elements(0, plan_.groups()) : joined_elements(first_group, together);
      const std::vector<std::vector<std::vector<PlacedElement>>> of_turns = deal_to_turns(lanes, rows, rule_.bank_sets);
      for (int turn = 0; turn < spread; ++turn) {
        const std::vector<PlacedElement> loaded =
            plan_.order == RowOrder::natural ? pack_in_order(lanes[turn], of_turns[turn], into_.count())
                                             : pack_joined_lanes(lanes[turn], of_turns[turn], into_.count(),
                                                                 rule_.bank_sets, plan_.order == RowOrder::bank_merged);
        for (std::size_t i = 0; i < loaded.size(); ++i) {
          const int lane = thread_at(static_cast<int>(i) / into_.count(), turn) % kWarp,
                    slot = static_cast<int>(i) % into_.count();
          if (loaded[i].element >= 0) {
            into_.put(slot, lane, loaded[i].element);
          } else {
            into_.put_padding(slot, lane, loaded[i].set);
          }
        }
      }
    }
  }

 private:
  // Calls `visit` with what each lane of a block has, in their order, and its thread.
  template <typename Visit>
  void for_each_lane_of_block(Visit&& visit) const {
    for (int i = 0; i < plan_.threads; ++i) {
      const int thread = joined_thread(layout_.network, plan_, 0, i);
      visit(layout_.joined[layout_.lane_rows(sm_, 0, thread)], thread);
    }
  }

  // Joined rows of which a warp's lanes take one stretch after another. A block's rows may begin in other warps.
  void pack_deltas() {
    std::vector<std::vector<Placed>> elements;  // of the rows
    std::array<std::span<const Placed>, kWarp> lanes;
    std::array<SecondStretch, kWarp> seconds;
    std::array<int, kWarp> alike;  // lanes that may exchange what they have
    std::vector<std::span<const Placed>> left(static_cast<std::size_t>(plan_.joined_groups()) * gates_);
    const auto take = [&](int row, int room) {
      std::span<const Placed> stretch;
      if (row >= 0) {
        stretch = first_of_row(left[row], room);
        left[row] = left[row].subspan(stretch.size());
      }
      return stretch;
    };
    const auto load = [&](int first_group, int row) {
      const std::size_t group_row = layout_.group_row(sm_, r_ + row % gates_, first_group + row / gates_);
      left[row] = elements.emplace_back(placed_in(layout_, matrix_, group_row));
    };
    const auto add = [&](const LaneRows& of, int thread, int set) {
      const std::span<const Placed> first = take(of.first, of.of_first), second = take(of.second, of.of_second);
      if (thread / kWarp != warp_) {
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
      for_each_lane_of_block([&](const LaneRows& of, int thread) {
        for (const int row : {of.first, of.second}) {
          if (row >= 0 && thread / kWarp == warp_ && !has[row]) {
            has[row] = true;
            load(0, row);
          }
        }
      });
      for_each_lane_of_block([&](const LaneRows& of, int thread) { add(of, thread, 0); });
    }
    for (int set = 0; plan_.joins_block == 0 && set < groups_per_warp_; ++set) {
      const int group = warp_ * groups_per_warp_ + set;
      for (int row = 0; row < gates_; ++row) {
        load(group, row);
      }
      for (int i = 0; i < plan_.lanes_per_row; ++i) {
        const int thread = joined_thread(layout_.network, plan_, group, i);
        add(layout_.joined[layout_.lane_rows(sm_, r_, thread)], thread, set);
      }
    }
    if (plan_.order != RowOrder::natural) {
      even_out_phases(lanes, alike, rule_);
    }
    into_.put_deltas(lanes, seconds);
  }

  // The non-zeros of the rows whose lanes are filled together: of units, or what this warp has of its block's.
  std::vector<std::vector<PlacedElement>> joined_elements(int first_group, int groups) const {
    std::vector<std::int64_t> before(static_cast<std::size_t>(groups) * gates_, 0), here(before);
    if (plan_.joins_block > 0) {
      for_each_lane_of_block([&](const LaneRows& of, int thread) {
        auto& counts = thread / kWarp < warp_ ? before : here;
        if (thread / kWarp <= warp_ && of.first >= 0) {
          counts[of.first] += of.of_first;
        }
        if (thread / kWarp <= warp_ && of.second >= 0) {
          counts[of.second] += of.of_second;
        }
      });
    }
    std::vector<std::vector<PlacedElement>> rows(before.size());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (plan_.joins_block > 0 && here[row] == 0) {
        continue;
      }
      const int group = first_group + static_cast<int>(row) / gates_, at = static_cast<int>(row) % gates_;
      std::vector<std::int64_t> elements = elements_in(layout_, matrix_, rule_, layout_.group_row(sm_, r_ + at, group));
      if (plan_.joins_block > 0 && here[row] < std::ssize(elements)) {
        elements = stretch_of(layout_, matrix_, rule_, std::move(elements), before[row], before[row] + here[row]);
      }
      for (const std::int64_t e : elements) {
        rows[row].push_back({e, set_of(layout_, matrix_, rule_, e)});
      }
    }
    return rows;
  }

  Layout& layout_;
  const SparseMatrix& matrix_;
  const Plan& plan_;
  BankRule rule_;
  int gates_, groups_per_warp_, sm_, r_, warp_;
  WarpSlots into_;
};

}  // namespace

void join_rows_of(Layout& layout, const SparseMatrix& matrix) {
  const Plan& plan = layout.plan;
  const int gates = info(layout.network.cell).gates, lanes = plan.lanes_of_joined();
  layout.joined.assign(static_cast<std::size_t>(plan.sms) * (plan.rows_per_group / gates) * plan.threads, {});
  for (int sm = 0; sm < plan.sms; ++sm) {
    for (int r = 0; r < plan.rows_per_group; r += gates) {
      for (int group = 0; group < plan.groups(); group += plan.joined_groups()) {
        const std::vector<std::int64_t> of_rows = slots_at(layout, matrix, sm, r, group);
        const std::vector<LaneRows> joined =
            plan.joins_block > 0
                ? join_block(of_rows, plan.warps(), plan.slots[r], plan.strip_slots)
                : join_rows(of_rows, lanes, joined_slots(plan, r, of_rows), plan.slots[r], plan.strip_slots);
        if (joined.empty()) {
          throw InputError("the rows of SM " + std::to_string(sm) + " take more than the plan's " +
                           std::to_string(plan.slots[r]) + " slots of a lane");
        }
        for (int i = 0; i < lanes; ++i) {
          layout.joined[layout.lane_rows(sm, r, joined_thread(layout.network, plan, group, i))] = joined[i];
        }
      }
    }
  }
}

int joined_slots_of_warp(const Layout& layout, const SparseMatrix& matrix, int sm, int r, int warp) {
  const Plan& plan = layout.plan;
  if (plan.joins_block > 0) {
    return plan.slots[r];
  }
  const int groups_per_warp = kWarp / plan.lanes_per_row, first_group = warp * groups_per_warp;
  int slots = 0;
  for (int group = first_group; group < first_group + groups_per_warp; ++group) {
    slots = std::max(slots, joined_slots(plan, r, slots_at(layout, matrix, sm, r, group)));
  }
  const int chunks = chunks_beyond(layout.network, plan, plan.slots[r], slots);
  if (chunks > 0 && !plan.has_tail()) {
    throw InputError("a unit of SM " + std::to_string(sm) + " takes " + std::to_string(slots) +
                     " slots of a lane, but the plan has " + std::to_string(plan.slots[r]));
  }
  return plan.slots[r] + chunks * chunk_slots(layout.network, plan);
}

void pack_joined(Layout& layout, const SparseMatrix& matrix, int sm, int r, int warp) {
  JoinedPacker(layout, matrix, sm, r, warp).pack();
}

}  // namespace onchip
