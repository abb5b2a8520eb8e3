// SPDX-License-Identifier: Apache-2.0
#include "model/joined_packing.hpp"

#include "model/bank_rule.hpp"
#include "model/conflict_merging.hpp"
#include "model/phase_colouring.hpp"

#include <algorithm>
#include <array>
#include <cassert>

namespace onchip {
namespace {

class LanePacker {
 public:
  LanePacker(const std::vector<JoinedLane>& lanes, const std::vector<std::vector<PlacedElement>>& rows, int slots,
             int bank_sets)
      : lanes_(lanes),
        slots_(slots),
        bank_sets_(bank_sets),
        of_set_(rows.size()),
        colouring_(bank_sets, static_cast<int>(lanes.size()), slots),
        loaded_(lanes.size() * static_cast<std::size_t>(slots)) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (const PlacedElement& e : rows[row]) {
        of_set_[row][e.set].push_back(e.element);
        ++left_[e.set];
      }
    }
  }

  std::vector<PlacedElement> packed(bool merges) {
    for (int lane = 0; lane < std::ssize(lanes_); ++lane) {
      if (lanes_[lane].second >= 0) {
        fill_shared_lane(lane);
      }
    }
    colour_whole_lanes();
    LoadedSets sets(static_cast<int>(lanes_.size()), static_cast<int>(lanes_.size()), slots_, bank_sets_, owners());
    place_coloured(sets);
    place_conflicting(sets);
    if (merges) {
      sets.merge_conflicts();
    }
    std::vector<PlacedElement> result(loaded_.size());
    for (int lane = 0; lane < std::ssize(lanes_); ++lane) {
      for (int slot = 0; slot < slots_; ++slot) {
        PlacedElement& e = result[at(lane, slot)];
        e = loaded_[sets.first_place(lane, slot)];
        if (e.element < 0) {
          e.set = sets.free_set(slot);
          sets.load(lane, slot, e.set);
        }
      }
    }
    return result;
  }

 private:
  std::size_t at(int lane, int slot) const { return static_cast<std::size_t>(lane) * slots_ + slot; }

  std::vector<int> owners() const {
    std::vector<int> owners(loaded_.size());
    for (int lane = 0; lane < std::ssize(lanes_); ++lane) {
      for (int slot = 0; slot < slots_; ++slot) {
        owners[at(lane, slot)] = lanes_[lane].owner(slot);
      }
    }
    return owners;
  }

  std::int64_t take(int row, int set) {
    const std::int64_t element = of_set_[row][set].back();
    of_set_[row][set].pop_back();
    --left_[set];
    return element;
  }

  // A lane of two rows: in every slot of the sets that the row has and that no lane loads there, the one that is needed
  // most. The others' slots can be exchanged afterwards, these not.
  void fill_shared_lane(int lane) {
    const JoinedLane& of = lanes_[lane];
    colouring_.fix(lane);
    for (const bool is_second : {false, true}) {
      const int row = is_second ? of.second : of.first, begin = is_second ? of.begin : 0;
      for (int slot = begin; slot < begin + (is_second ? of.of_second : of.of_first); ++slot) {
        int best = PhaseColouring::kNone;
        for (int set = 0; set < bank_sets_; ++set) {
          if (!of_set_[row][set].empty() && colouring_.is_free(set, slot) &&
              (best == PhaseColouring::kNone || left_[set] > left_[best])) {
            best = set;
          }
        }
        if (best != PhaseColouring::kNone) {
          colouring_.add_fixed(best, lane, slot);
          loaded_[at(lane, slot)] = {take(row, best), best};
        }
      }
    }
  }

  // What is left of every row goes to its whole lanes in turn; then the colouring finds the slots.
  void colour_whole_lanes() {
    of_lane_.resize(lanes_.size());
    for (int row = 0; row < std::ssize(of_set_); ++row) {
      std::vector<std::pair<int, int>> open;  // lane, room
      for (int lane = 0; lane < std::ssize(lanes_); ++lane) {
        if (lanes_[lane].first == row && lanes_[lane].second < 0 && lanes_[lane].of_first > 0) {
          open.emplace_back(lane, lanes_[lane].of_first);
        }
      }
      std::size_t next = 0;
      for (int set = 0; set < bank_sets_; ++set) {
        while (!of_set_[row][set].empty() && !open.empty()) {
          next = next < open.size() ? next : 0;
          const int lane = open[next].first;
          if (!colouring_.add(set, lane)) {
            break;
          }
          of_lane_[lane][set].push_back(take(row, set));
          if (--open[next].second == 0) {
            open.erase(open.begin() + static_cast<std::ptrdiff_t>(next));
          } else {
            ++next;
          }
        }
      }
    }
  }

  void place_coloured(LoadedSets& sets) {
    used_.resize(static_cast<std::size_t>(slots_));
    for (int lane = 0; lane < std::ssize(lanes_); ++lane) {
      for (int slot = 0; slot < slots_; ++slot) {
        const int set = colouring_.set_at(lane, slot);
        if (set == PhaseColouring::kNone) {
          continue;
        }
        sets.load(lane, slot, set);
        ++used_[slot][set];
        if (lanes_[lane].second < 0) {
          loaded_[at(lane, slot)] = {of_lane_[lane][set].back(), set};
          of_lane_[lane][set].pop_back();
        }
      }
    }
  }

  // What no slot can take without a conflict: where one more costs least.
  void place_conflicting(LoadedSets& sets) {
    for (int row = 0; row < std::ssize(of_set_); ++row) {
      for (int set = 0; set < bank_sets_; ++set) {
        while (!of_set_[row][set].empty()) {
          int best_lane = -1, best_slot = -1, least = 4 * kWarpLanes;
          for (int lane = 0; lane < std::ssize(lanes_); ++lane) {
            for (int slot = 0; slot < slots_; ++slot) {
              if (lanes_[lane].owner(slot) != row || loaded_[at(lane, slot)].element >= 0) {
                continue;
              }
              const auto& counts = used_[slot];
              const int most = *std::max_element(counts.begin(), counts.begin() + bank_sets_);
              const int more = std::max(most, counts[set] + 1) - most;
              if (const int cost = 2 * more + (most == 1 ? 1 : 0); cost < least) {
                least = cost;
                best_lane = lane;
                best_slot = slot;
              }
            }
          }
          assert(best_lane >= 0);
          loaded_[at(best_lane, best_slot)] = {take(row, set), set};
          sets.load(best_lane, best_slot, set);
          ++used_[best_slot][set];
        }
      }
    }
  }

  const std::vector<JoinedLane>& lanes_;
  int slots_, bank_sets_;
  std::vector<std::array<std::vector<std::int64_t>, kMaxBankSets>> of_set_;   // [rows]: not yet in a lane
  std::array<int, kMaxBankSets> left_{};                                      // of all rows
  std::vector<std::array<std::vector<std::int64_t>, kMaxBankSets>> of_lane_;  // [lanes]: to be placed in its slots
  PhaseColouring colouring_;
  std::vector<PlacedElement> loaded_;                // [lanes, slots]
  std::vector<std::array<int, kMaxBankSets>> used_;  // [slots]
};

}  // namespace

std::vector<PlacedElement> pack_joined_lanes(const std::vector<JoinedLane>& lanes,
                                             const std::vector<std::vector<PlacedElement>>& rows, int slots,
                                             int bank_sets, bool merges) {
  return LanePacker(lanes, rows, slots, bank_sets).packed(merges);
}

std::vector<PlacedElement> pack_in_order(const std::vector<JoinedLane>& lanes,
                                         std::vector<std::vector<PlacedElement>> rows, int slots) {
  for (std::vector<PlacedElement>& row : rows) {
    std::ranges::sort(row, {}, [](const PlacedElement& e) { return e.element; });
  }
  std::vector<PlacedElement> loaded(lanes.size() * static_cast<std::size_t>(slots));
  std::vector<std::size_t> next(rows.size(), 0);
  for (int slot = 0; slot < slots; ++slot) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      PlacedElement& at = loaded[lane * static_cast<std::size_t>(slots) + static_cast<std::size_t>(slot)];
      const int row = lanes[lane].owner(slot);
      if (row >= 0 && next[row] < rows[row].size()) {
        at = rows[row][next[row]++];
      } else {
        at.set = static_cast<int>(lane) % kMaxBankSets;
      }
    }
  }
  return loaded;
}

std::vector<std::vector<std::vector<PlacedElement>>> deal_to_turns(const std::vector<std::vector<JoinedLane>>& lanes,
                                                                   const std::vector<std::vector<PlacedElement>>& rows,
                                                                   int bank_sets) {
  const std::size_t turns = lanes.size();
  std::vector<std::vector<std::vector<PlacedElement>>> dealt(turns,
                                                             std::vector<std::vector<PlacedElement>>(rows.size()));
  std::vector<std::vector<std::int64_t>> room(turns, std::vector<std::int64_t>(rows.size(), 0));
  for (std::size_t turn = 0; turn < turns; ++turn) {
    for (const JoinedLane& lane : lanes[turn]) {
      if (lane.first >= 0) {
        room[turn][lane.first] += lane.of_first;
      }
      if (lane.second >= 0) {
        room[turn][lane.second] += lane.of_second;
      }
    }
  }
  std::vector<std::array<int, kMaxBankSets>> load(turns, std::array<int, kMaxBankSets>{});
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::array<std::vector<PlacedElement>, kMaxBankSets> of_set;
    for (const PlacedElement& e : rows[row]) {
      of_set[e.set].push_back(e);
    }
    for (int set = 0; set < bank_sets; ++set) {
      for (const PlacedElement& e : of_set[set]) {
        std::size_t best = turns;
        for (std::size_t turn = 0; turn < turns; ++turn) {
          if (room[turn][row] > 0 && (best == turns || load[turn][set] < load[best][set] ||
                                      (load[turn][set] == load[best][set] && room[turn][row] > room[best][row]))) {
            best = turn;
          }
        }
        assert(best < turns);
        dealt[best][row].push_back(e);
        --room[best][row];
        ++load[best][set];
      }
    }
  }
  return dealt;
}

}  // namespace onchip
