// SPDX-License-Identifier: Apache-2.0
// Conflicts of bank sets in as few phases as can be (RowOrder::bank_merged). Where sets have more non-zeros than there
// are phases, some phases hit them twice: a phase takes two wavefronts then, whether one set is hit twice or many are.
// So phases with few such sets, one after another, hand them to others that take as long in any case, in exchange for
// what does not meet with others there. Greedy, from the phase with the fewest on.
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace onchip {

// What the lanes of a phase load, phase after phase; lanes [group * neighbours, (group + 1) * neighbours) may exchange.
class LoadedSets {
 public:
  static constexpr int kIdle = -1;

  LoadedSets(int lanes, int neighbours, int phases, int sets)
      : neighbours_(neighbours),
        phases_(phases),
        sets_(sets),
        set_at_(static_cast<std::size_t>(lanes) * phases, kIdle),
        first_place_(set_at_.size()),
        hits_(static_cast<std::size_t>(phases) * sets, 0) {
    std::iota(first_place_.begin(), first_place_.end(), 0);
  }

  void load(int lane, int phase, int set) {
    set_at_[place(lane, phase)] = set;
    ++hits(phase, set);
  }

  // One that no lane hits in the phase; 0 if there is none.
  int free_set(int phase) const {
    const auto first = hits_.begin() + static_cast<std::ptrdiff_t>(phase) * sets_;
    const auto free = std::find(first, first + sets_, 0);
    return free == first + sets_ ? 0 : static_cast<int>(free - first);
  }

  void merge_conflicts() {
    std::vector<int> by_conflicts(static_cast<std::size_t>(phases_));
    std::iota(by_conflicts.begin(), by_conflicts.end(), 0);
    for (bool has_fewer = true; has_fewer;) {
      has_fewer = false;
      most_.clear();
      std::vector<int> conflicts;
      for (int phase = 0; phase < phases_; ++phase) {
        const auto first = hits_.begin() + static_cast<std::ptrdiff_t>(phase) * sets_;
        most_.push_back(*std::max_element(first, first + sets_));
        conflicts.push_back(static_cast<int>(std::count(first, first + sets_, most_.back())));
      }
      std::stable_sort(by_conflicts.begin(), by_conflicts.end(), [&](int a, int b) {
        return conflicts[static_cast<std::size_t>(a)] < conflicts[static_cast<std::size_t>(b)];
      });
      for (const int phase : by_conflicts) {
        has_fewer |= most(phase) > 1 && hand_over(phase);
      }
    }
  }

  // Where what this lane now loads in this phase was at first: lane * phases + phase.
  std::size_t first_place(int lane, int phase) const {
    return static_cast<std::size_t>(first_place_[place(lane, phase)]);
  }

 private:
  std::size_t place(int lane, int phase) const { return static_cast<std::size_t>(lane) * phases_ + phase; }
  int& hits(int phase, int set) { return hits_[static_cast<std::size_t>(phase) * sets_ + set]; }
  int most(int phase) const { return most_[static_cast<std::size_t>(phase)]; }

  // One wavefront less for the phase, if others can take what it has too often.
  bool hand_over(int phase) {
    const int lanes = static_cast<int>(set_at_.size()) / phases_, fewer = most(phase) - 1;
    bool is_left = false;
    for (int lane = 0; lane < lanes; ++lane) {
      const int set = set_at_[place(lane, phase)];
      if (set != kIdle && hits(phase, set) > fewer && !exchange(lane, phase, set, fewer)) {
        is_left = true;
      }
    }
    for (int set = 0; is_left && set < sets_; ++set) {
      if (hits(phase, set) > fewer) {
        return false;
      }
    }
    most_[static_cast<std::size_t>(phase)] = fewer;
    return true;
  }

  bool exchange(int lane, int phase, int set, int fewer) {
    const int first = lane / neighbours_ * neighbours_;
    for (int other = 0; other < phases_; ++other) {
      if (other == phase || hits(other, set) >= most(other) || most(other) < 2) {
        continue;
      }
      for (int with = first; with < first + neighbours_; ++with) {
        const int back = set_at_[place(with, other)];
        if (back == kIdle || (back != set && hits(phase, back) < fewer)) {
          --hits(phase, set);
          ++hits(other, set);
          if (back != kIdle) {
            --hits(other, back);
            ++hits(phase, back);
          }
          std::swap(set_at_[place(lane, phase)], set_at_[place(with, other)]);
          std::swap(first_place_[place(lane, phase)], first_place_[place(with, other)]);
          return true;
        }
      }
    }
    return false;
  }

  int neighbours_, phases_, sets_;
  std::vector<int> set_at_;       // [lanes, phases]
  std::vector<int> first_place_;  // [lanes, phases]
  std::vector<int> hits_;         // [phases, sets]
  std::vector<int> most_;         // [phases]: of a set
};

}  // namespace onchip
