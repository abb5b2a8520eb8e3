// SPDX-License-Identifier: Apache-2.0
// Events in order of the whole cycle they fall in, those of one cycle in the order in which they came: a list for every
// cycle, because simulated exchanges have millions of events within some thousand cycles.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace onchip {

// Event: has `at`, in cycles, not negative.
template <typename Event>
class EventQueue {
 public:
  // While run() works: not before the cycle of the event that it works on.
  void push(const Event& event) {
    const std::size_t cycle = std::max(static_cast<std::size_t>(event.at), now_);
    if (cycle >= cycles_.size()) {
      cycles_.resize(cycle + 1024);
    }
    cycles_[cycle].push_back(event);
    ++waiting_;
  }

  // Calls work(event) for every event, also for those that are pushed meanwhile.
  template <typename Work>
  void run(Work&& work) {
    for (now_ = 0; waiting_ > 0; ++now_) {
      for (std::size_t i = 0; i < cycles_[now_].size(); ++i) {
        const Event event = cycles_[now_][i];  // the list may move
        --waiting_;
        work(event);
      }
      cycles_[now_].clear();
    }
    now_ = 0;
  }

 private:
  std::vector<std::vector<Event>> cycles_;
  std::size_t now_ = 0, waiting_ = 0;
};

}  // namespace onchip
