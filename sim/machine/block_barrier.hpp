// SPDX-License-Identifier: Apache-2.0
// A barrier of a block: warps arrive one at a time, a few cycles each; some cycles after the last all go on. Arrivals
// together then cost what is measured, fixed part + cycles per warp * warps.
#pragma once

#include "model/chip/chip.hpp"

#include <algorithm>

namespace onchip {

class BlockBarrier {
 public:
  BlockBarrier(const Chip& chip, int warps)
      : fixed_cycles_(chip.block_barrier_cycles), per_warp_cycles_(chip.block_barrier_per_warp_cycles), warps_(warps) {}

  // Returns the cycle at which all may go on if this warp is the last, else 0.
  double arrive(double cycle) {
    arrived_at_ = std::max(arrived_at_, cycle) + per_warp_cycles_;
    if (++arrived_ < warps_) {
      return 0;
    }
    arrived_ = 0;
    return arrived_at_ + fixed_cycles_;
  }

  // A warp that has ended is not waited for. Returns like arrive().
  double leave(double cycle) {
    --warps_;
    if (warps_ == 0 || arrived_ < warps_) {
      return 0;
    }
    arrived_ = 0;
    return std::max(arrived_at_, cycle) + fixed_cycles_;
  }

 private:
  double fixed_cycles_, per_warp_cycles_;
  int warps_, arrived_ = 0;
  double arrived_at_ = 0;
};

}  // namespace onchip
