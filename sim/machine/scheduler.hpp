// SPDX-License-Identifier: Apache-2.0
// In which order a partition's scheduler looks at its warps. Warp w of a block belongs to partition w mod partitions.
// NVIDIA's since Turing are greedy, then take the youngest: R. Huerta, M. Abaie Shoushtary, J.-L. Cruz, A. Gonzalez,
// "Analyzing Modern NVIDIA GPU cores", arXiv 2503.20481, 2025. Warps of a block are the younger the higher their
// number.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace onchip {

enum class Scheduling : std::uint8_t {
  greedy_then_youngest,  // the warp that issued last while it can, then the highest number
  greedy_then_oldest,    // the same, then the lowest number
  round_robin,           // the warp after the one that issued last
};
inline constexpr std::array<std::string_view, 3> kSchedulingNames{"greedy_then_youngest", "greedy_then_oldest",
                                                                  "round_robin"};

class Scheduler {
 public:
  explicit Scheduler(Scheduling policy) : policy_(policy), last_(policy == Scheduling::round_robin ? 0 : kNone) {}

  void add(int warp) { warps_.push_back(warp); }

  // The first warp that `can_issue`, -1 if none can.
  template <typename CanIssue>
  int pick(CanIssue&& can_issue) {
    const std::size_t count = warps_.size();
    if (policy_ != Scheduling::round_robin) {
      if (last_ < count && can_issue(warps_[last_])) {
        return warps_[last_];
      }
      for (std::size_t n = 0; n < count; ++n) {
        const std::size_t i = policy_ == Scheduling::greedy_then_oldest ? n : count - 1 - n;
        if (i != last_ && can_issue(warps_[i])) {
          last_ = i;
          return warps_[i];
        }
      }
      return -1;
    }
    for (std::size_t i = 1; i <= count; ++i) {
      const std::size_t next = (last_ + i) % count;
      if (can_issue(warps_[next])) {
        last_ = next;
        return warps_[next];
      }
    }
    return -1;
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  Scheduling policy_;
  std::vector<int> warps_;
  std::size_t last_;  // that issued; greedy: none yet
};

}  // namespace onchip
