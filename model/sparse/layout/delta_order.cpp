// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/layout/delta_order.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>

namespace onchip {
namespace {

// Slots without a non-zero between two places.
int steps_between(std::int32_t from, std::int32_t to) {
  return std::max(0, (to - from - 1) / kMostDelta);
}

// One lane, on its way through its stretch.
class Walk {
 public:
  static constexpr int kChoices = 32;  // of the next non-zeros

  Walk() = default;
  Walk(std::span<const Placed> stretch, int slots, const BankRule& rule)
      : stretch_(stretch),
        rule_(&rule),
        spare_(slots - delta_slots(stretch)),
        at_(stretch.empty() ? 0 : stretch.front().place) {
    assert(spare_ >= 0);
    refill();
  }

  bool idle() const { return stretch_.empty(); }
  bool done() const { return open_ == 0; }
  bool has_spare() const { return spare_ > 0; }
  std::int32_t at() const { return at_; }
  // Has further to go than one slot reaches.
  bool must_step() const { return !done() && next_[0].place - at_ > kMostDelta; }
  int choices() const { return open_; }
  std::int32_t choice(int i) const { return next_[i].place; }
  int set(int i) const { return set_[i]; }  // that choice i is in

  bool can_take(int i) const {
    if (i == 0) {
      return !must_step();
    }
    const std::int32_t place = next_[i].place;
    if (place - next_[0].place > kMostDelta || place - at_ > kMostDelta) {
      return false;
    }
    const bool is_last = i + 1 == open_;  // of all, or of those in view
    return is_last ? taken_ == stretch_.size() : next_[i + 1].place - next_[i - 1].place <= kMostDelta;
  }
  Placed take(int i) {
    const Placed taken = next_[i];
    std::copy(next_.begin() + i + 1, next_.begin() + open_, next_.begin() + i);
    std::copy(set_.begin() + i + 1, set_.begin() + open_, set_.begin() + i);
    --open_;
    refill();
    at_ = taken.place;
    return taken;
  }

  // Whether a slot without a non-zero may read `place`.
  bool can_wait_at(std::int32_t place) const {
    return std::abs(place - at_) <= kMostDelta && (done() || std::abs(next_[0].place - place) <= kMostDelta);
  }
  bool can_step_to(std::int32_t place) const {
    return place - at_ <= kMostDelta && steps_between(place, next_[0].place) < steps_between(at_, next_[0].place);
  }
  void wait_at(std::int32_t place) {
    at_ = place;
    --spare_;
  }
  void step_to(std::int32_t place) { at_ = place; }

 private:
  void refill() {
    while (open_ < kChoices && taken_ < stretch_.size()) {
      set_[open_] = static_cast<std::uint8_t>(rule_->set_of(stretch_[taken_].place));
      next_[open_++] = stretch_[taken_++];
    }
  }

  std::span<const Placed> stretch_;
  const BankRule* rule_ = nullptr;
  std::size_t taken_ = 0;                   // of the stretch, into next_
  std::array<Placed, kChoices> next_;       // not taken yet, ascending
  std::array<std::uint8_t, kChoices> set_;  // that each is in
  int open_ = 0;                            // of them
  int spare_ = 0;                           // slots beyond those that are needed
  std::int32_t at_ = 0;
};

// Of each word the lane of a phase that may take it in this slot.
class Words {
 public:
  struct Seen {
    std::int32_t word = -1;
    std::uint32_t slot = 0;
    std::int8_t lane = 0, choice = 0;
  };

  void next_slot() { ++slot_; }
  // The lane that came first; nothing if this one does, or if a word in the same place of the table did.
  const Seen* first(std::int32_t word, int lane, int choice) {
    Seen& seen = seen_[static_cast<std::size_t>(word) % kSize];
    if (seen.slot == slot_) {
      return seen.word == word && seen.lane != lane ? &seen : nullptr;
    }
    seen = {word, slot_, static_cast<std::int8_t>(lane), static_cast<std::int8_t>(choice)};
    return nullptr;
  }

 private:
  static constexpr std::size_t kSize = 2048;
  std::array<Seen, kSize> seen_{};
  std::uint32_t slot_ = 0;
};

// The lanes of one phase and slot. `needs`: non-zeros in each set that they have not taken; `slots_left`: with this
// one.
class Phase {
 public:
  Phase(std::span<Walk> walks, std::span<Placed> slot, const BankRule& rule, std::int32_t idle,
        std::array<int, kMaxBankSets>& needs, int slots_left, Words& words)
      : walks_(walks),
        slot_(slot),
        rule_(rule),
        idle_(idle),
        needs_(needs),
        slots_left_(slots_left),
        words_seen_(words) {}

  void serve() {
    if (match_all(true) || (shared_ && match_all(false))) {
      serve_once();
    } else {
      serve_twice();
    }
  }

 private:
  static constexpr std::int8_t kNone = -1;

  struct Shared {
    std::int8_t lane, choice, other_lane, other_choice, set;
  };

  int lanes() const { return static_cast<int>(walks_.size()); }
  bool can_wait(const Walk& walk) const { return walk.idle() || walk.done() || walk.must_step() || walk.has_spare(); }

  // Whether each lane that cannot wait has a set. Lanes without a spare slot come first: a lane once matched stays so.
  bool match_all(bool share) {
    lane_of_.fill(kNone);
    set_of_.fill(kNone);
    fixed_ = 0;
    if (share) {
      words_seen_.next_slot();
      for (int lane = 0; lane < lanes(); ++lane) {
        find_choices(lane);
      }
      share_word();
    }
    match_scarce_sets();
    for (const bool spare : {false, true}) {
      for (int lane = 0; lane < lanes(); ++lane) {
        tried_ = fixed_;
        if (set_of_[lane] == kNone && walks_[lane].has_spare() == spare) {
          match(lane);
        }
      }
    }
    for (int lane = 0; lane < lanes(); ++lane) {
      if (set_of_[lane] == kNone && !can_wait(walks_[lane])) {
        return false;
      }
    }
    return true;
  }

  void serve_once() {
    for (int lane = 0; lane < lanes(); ++lane) {
      if (const int set = set_of_[lane]; set != kNone) {
        slot_[lane] = take(lane, choice_[lane][set]);
        words_[set] = 1;
      }
    }
    for (int lane = 0; lane < lanes(); ++lane) {
      if (set_of_[lane] == kNone) {
        count(slot_[lane] = without_partner(lane));
      }
    }
  }

  // Two wavefronts, as one is not enough: each lane takes what most of the others need too.
  void serve_twice() {
    std::array<int, kMaxBankSets> needs{};
    for (const Walk& walk : walks_) {
      for (int i = 0; i < walk.choices(); ++i) {
        ++needs[walk.set(i)];
      }
    }
    for (std::size_t lane = 0; lane < walks_.size(); ++lane) {
      Walk& walk = walks_[lane];
      int best = kNone;
      for (int i = 0; i < walk.choices(); ++i) {
        const int set = walk.set(i);
        if (walk.can_take(i) && words_[set] < 2 && (best == kNone || needs[set] > needs[walk.set(best)])) {
          best = i;
        }
      }
      if (best != kNone) {
        --needs[walk.set(best)];
        count(slot_[lane] = take(static_cast<int>(lane), best));
      } else {
        count(slot_[lane] = without_partner(static_cast<int>(lane)));
      }
    }
  }

  Placed take(int lane, int choice) {
    --needs_[walks_[lane].set(choice)];
    return walks_[lane].take(choice);
  }

  // For each set the first of the lane's choices that is in it; of all choices those that share a word.
  void find_choices(int lane) {
    const Walk& walk = walks_[lane];
    choice_[lane].fill(kNone);
    int found = 0;
    for (int i = 0; i < walk.choices(); ++i) {
      if (!walk.can_take(i)) {
        continue;
      }
      const int set = walk.set(i);
      const std::int32_t word = walk.choice(i) * rule_.stride / std::max(kBankBytes, rule_.stride);
      const Words::Seen* const seen = words_seen_.first(word, lane, i);
      if (seen != nullptr && (!shared_ || needs_[set] > needs_[shared_->set])) {
        shared_ = Shared{seen->lane, seen->choice, static_cast<std::int8_t>(lane), static_cast<std::int8_t>(i),
                         static_cast<std::int8_t>(set)};
      }
      if (choice_[lane][set] == kNone) {
        choice_[lane][set] = static_cast<std::int8_t>(i);
        sets_[lane][found++] = static_cast<std::int8_t>(set);
      }
    }
    found_[lane] = found;
  }

  // Two lanes of different rows take the same word, in the set that is needed most: one access serves both. More than
  // two would leave fewer such words for the slots to come.
  void share_word() {
    if (!shared_) {
      return;
    }
    const auto [lane, choice, other_lane, other_choice, set] = *shared_;
    choice_[lane][set] = choice;
    choice_[other_lane][set] = other_choice;
    set_of_[lane] = set_of_[other_lane] = set;
    lane_of_[set] = lane;
    fixed_ = 1u << set;
  }

  // Sets that as many non-zeros need as there are slots left must not be left out, whoever else has to wait.
  void match_scarce_sets() {
    std::array<std::int8_t, kMaxBankSets> scarce;
    int count = 0;
    for (int set = 0; set < rule_.bank_sets; ++set) {
      if (needs_[set] >= slots_left_ && (fixed_ >> set & 1) == 0) {
        scarce[count++] = static_cast<std::int8_t>(set);
      }
    }
    std::sort(scarce.begin(), scarce.begin() + count,
              [&](int a, int b) { return std::pair(-needs_[a], a) < std::pair(-needs_[b], b); });
    for (int i = 0; i < count; ++i) {
      tried_lanes_ = 0;
      match_set(scarce[i]);
    }
  }

  bool match_set(int set) {
    for (int lane = 0; lane < lanes(); ++lane) {
      const int before = set_of_[lane];
      if (choice_[lane][set] == kNone || (tried_lanes_ >> lane & 1) != 0 ||
          (before != kNone && (fixed_ >> before & 1) != 0)) {
        continue;
      }
      tried_lanes_ |= 1u << lane;
      if (before == kNone || match_set(before)) {
        lane_of_[set] = static_cast<std::int8_t>(lane);
        set_of_[lane] = static_cast<std::int8_t>(set);
        return true;
      }
    }
    return false;
  }

  bool match(int lane) {
    for (int i = 0; i < found_[lane]; ++i) {
      const int set = sets_[lane][i];
      if ((tried_ >> set & 1) != 0) {
        continue;
      }
      tried_ |= 1u << set;
      if (lane_of_[set] == kNone || match(lane_of_[set])) {
        lane_of_[set] = static_cast<std::int8_t>(lane);
        set_of_[lane] = static_cast<std::int8_t>(set);
        return true;
      }
    }
    return false;
  }

  void count(const Placed& placed) { ++words_[rule_.set_of(placed.place)]; }

  // The nearest place in a set that nobody reads, if one may be read; else `otherwise`.
  template <typename May>
  std::int32_t in_free_set(std::int32_t from, std::int32_t otherwise, May&& may) const {
    const int reach = std::min(kMostDelta, 2 * rule_.bank_sets);
    for (int distance = 0; distance <= reach; ++distance) {
      for (const std::int32_t place : {from + distance, from - distance}) {
        if (place >= 0 && place < idle_ && words_[rule_.set_of(place)] == 0 && may(place)) {
          return place;
        }
      }
    }
    return otherwise;
  }

  Placed without_partner(int lane) {
    Walk& walk = walks_[lane];
    if (walk.idle()) {
      const int per_set = std::max(1, kBankBytes / rule_.stride);
      for (std::int32_t place = idle_; place < idle_ + rule_.bank_sets * per_set; place += per_set) {
        if (words_[rule_.set_of(place)] == 0) {
          return {place, -1};
        }
      }
      return {idle_, -1};
    }
    if (walk.must_step()) {
      const std::int32_t far = walk.at() + kMostDelta;
      walk.step_to(in_free_set(far, far, [&](std::int32_t place) { return walk.can_step_to(place); }));
      return {walk.at(), -1};
    }
    if (walk.done() || walk.has_spare()) {
      const auto may = [&](std::int32_t place) { return walk.can_wait_at(place); };
      walk.wait_at(in_free_set(walk.at(), walk.at(), may));
      return {walk.at(), -1};
    }
    int best = 0;
    for (int i = 1; i < walk.choices(); ++i) {
      if (walk.can_take(i) && words_[walk.set(i)] < words_[walk.set(best)]) {
        best = i;
      }
    }
    return take(lane, best);
  }

  std::span<Walk> walks_;
  std::span<Placed> slot_;
  const BankRule& rule_;
  std::int32_t idle_;
  std::array<std::array<std::int8_t, kMaxBankSets>, kWarpLanes> choice_;  // [lanes, sets]
  std::array<std::array<std::int8_t, kMaxBankSets>, kWarpLanes>
      sets_;                                       // of each lane that has a choice, in their order
  std::array<int, kWarpLanes> found_;              // of them
  std::array<std::int8_t, kMaxBankSets> lane_of_;  // matched
  std::array<std::int8_t, kWarpLanes> set_of_;
  std::array<int, kMaxBankSets> words_{};
  std::uint32_t fixed_ = 0;  // the set of a word that lanes share
  std::uint32_t tried_ = 0, tried_lanes_ = 0;
  std::optional<Shared> shared_;
  std::array<int, kMaxBankSets>& needs_;
  int slots_left_;
  Words& words_seen_;
};

Placed in_order(Walk& walk, std::int32_t idle) {
  if (walk.idle()) {
    return {idle, -1};
  }
  if (walk.must_step()) {
    walk.step_to(walk.at() + kMostDelta);
  } else if (walk.done()) {
    walk.wait_at(walk.at());
  } else {
    return walk.take(0);
  }
  return {walk.at(), -1};
}

}  // namespace

int delta_slots(std::span<const Placed> row) {
  int slots = static_cast<int>(row.size());
  for (std::size_t i = 1; i < row.size(); ++i) {
    slots += steps_between(row[i - 1].place, row[i].place);
  }
  return slots;
}

std::span<const Placed> first_of_row(std::span<const Placed> row, int slots) {
  std::size_t end = 0;
  for (int taken = 0; end < row.size(); ++end) {
    taken +=
        1 + (end > 0 ? steps_between(row[end - 1].place, row[end].place) : 0);  // the way to the first costs nothing
    if (taken > slots) {
      break;
    }
  }
  return row.first(end);
}

std::vector<std::span<const Placed>> cut_row(std::span<const Placed> row, int lanes) {
  const int most = (delta_slots(row) + lanes - 1) / lanes;
  std::vector<std::span<const Placed>> stretches;
  while (!row.empty()) {
    stretches.push_back(first_of_row(row, most));
    row = row.subspan(stretches.back().size());
  }
  stretches.resize(static_cast<std::size_t>(lanes));
  return stretches;
}

void even_out_phases(std::array<std::span<const Placed>, kWarpLanes>& lanes, const std::array<int, kWarpLanes>& group,
                     const BankRule& rule) {
  constexpr int kRounds = 3;
  using Needs = std::array<int, kMaxBankSets>;  // how often each set is read
  std::array<Needs, kWarpLanes> of_lane{}, of_phase{};
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    for (const Placed& placed : lanes[lane]) {
      const int set = rule.set_of(placed.place);
      ++of_lane[lane][set];
      ++of_phase[lane / rule.phase_lanes][set];
    }
  }
  // The sum of the squares of all needs falls, or the exchange is not worth it.
  const auto exchange_if_better = [&](int a, int b) {
    Needs& phase_a = of_phase[a / rule.phase_lanes];
    Needs& phase_b = of_phase[b / rule.phase_lanes];
    int change = 0;  // half of it
    for (int set = 0; set < rule.bank_sets; ++set) {
      const int more = of_lane[b][set] - of_lane[a][set];
      change += more * (phase_a[set] - phase_b[set] + more);
    }
    if (change >= 0) {
      return;
    }
    for (int set = 0; set < rule.bank_sets; ++set) {
      const int more = of_lane[b][set] - of_lane[a][set];
      phase_a[set] += more;
      phase_b[set] -= more;
    }
    std::swap(of_lane[a], of_lane[b]);
    std::swap(lanes[a], lanes[b]);
  };
  for (int sweep = 0; sweep < kRounds; ++sweep) {
    for (int a = 0; a < kWarpLanes; ++a) {
      for (int b = (a / rule.phase_lanes + 1) * rule.phase_lanes; b < kWarpLanes; ++b) {
        if (group[a] == group[b]) {
          exchange_if_better(a, b);
        }
      }
    }
  }
}

std::vector<Placed> order_deltas(const std::array<std::span<const Placed>, kWarpLanes>& lanes, int slots,
                                 const BankRule& rule, bool bank_aware, std::int32_t idle) {
  std::array<Walk, kWarpLanes> walks;
  std::vector<Placed> taken(static_cast<std::size_t>(slots) * kWarpLanes);
  std::array<std::array<int, kMaxBankSets>, kWarpLanes> needs{};  // of each phase
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    walks[lane] = Walk(lanes[lane], slots, rule);
    for (const Placed& placed : lanes[lane]) {
      ++needs[lane / rule.phase_lanes][rule.set_of(placed.place)];
    }
  }
  Words words;
  for (int slot = 0; slot < slots; ++slot) {
    const auto of_slot = std::span(taken).subspan(static_cast<std::size_t>(slot) * kWarpLanes, kWarpLanes);
    if (!bank_aware) {
      std::transform(walks.begin(), walks.end(), of_slot.begin(), [&](Walk& walk) { return in_order(walk, idle); });
      continue;
    }
    for (int first = 0; first < kWarpLanes; first += rule.phase_lanes) {
      Phase(std::span(walks).subspan(first, rule.phase_lanes), of_slot.subspan(first, rule.phase_lanes), rule, idle,
            needs[first / rule.phase_lanes], slots - slot, words)
          .serve();
    }
  }
  return taken;
}

}  // namespace onchip
