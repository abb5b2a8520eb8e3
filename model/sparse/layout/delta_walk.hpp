// SPDX-License-Identifier: Apache-2.0
// One lane's way through its stretch of a row, and the words that a phase of lanes shares: what ordering distances
// (delta_order.hpp) is made of.
#pragma once

#include "model/sparse/layout/delta_order.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <span>

namespace onchip::delta {

// Slots without a non-zero between two places.
inline int steps_between(std::int32_t from, std::int32_t to) {
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

}  // namespace onchip::delta
