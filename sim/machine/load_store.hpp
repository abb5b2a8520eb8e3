// SPDX-License-Identifier: Apache-2.0
// The load/store unit of an SM: a queue in front of it for every partition, and one data path, which serves
// shared-memory accesses wavefront by wavefront, shuffles, and what goes to L2 as 128-byte pieces, in the order of
// their issue.
//
//   start  = max(issue, end of the one before)
//   end    = start + max(instruction cycles, wavefronts * wavefront cycles)
//   result = start + latency + cycles per word beyond the first 4 bytes of a lane + wavefronts beyond the ideal
#pragma once

#include "model/chip/chip.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <vector>

namespace onchip {

class LoadStoreUnit {
 public:
  explicit LoadStoreUnit(const Chip& chip)
      : wavefront_cycles_(chip.lds_wavefront_cycles),
        per_word_cycles_(chip.lds_latency_per_word_cycles),
        depth_(static_cast<std::size_t>(chip.load_store_queue)),
        queues_(static_cast<std::size_t>(chip.partitions)) {}

  // Whether the partition's queue has room at this cycle; if not, next_room says when.
  bool has_room(int partition, std::int64_t cycle) {
    std::deque<double>& queue = queues_[partition];
    while (!queue.empty() && queue.front() <= static_cast<double>(cycle)) {
      queue.pop_front();
    }
    return queue.size() < depth_;
  }
  std::int64_t next_room(int partition) const {
    return static_cast<std::int64_t>(std::ceil(queues_[partition].front()));
  }

  struct Access {
    double instruction_cycles = 1, latency_cycles = 0;
    int width = 4, wavefronts = 1, ideal = 1;
  };
  // Takes an access at this cycle; returns the cycle at which its result is there.
  double take(int partition, std::int64_t cycle, const Access& access) {
    const double start = std::max(static_cast<double>(cycle), free_at_);
    free_at_ = start + std::max(access.instruction_cycles, access.wavefronts * wavefront_cycles_);
    queues_[partition].push_back(start);
    return start + access.latency_cycles + per_word_cycles_ * std::max(0, access.width / 4 - 1) +
           wavefront_cycles_ * std::max(0, access.wavefronts - access.ideal);
  }

  double free_at() const { return free_at_; }

 private:
  double wavefront_cycles_, per_word_cycles_;
  std::size_t depth_;
  double free_at_ = 0;
  std::vector<std::deque<double>> queues_;  // [partitions]: when each waiting access starts
};

}  // namespace onchip
