// SPDX-License-Identifier: Apache-2.0
// When each register of one warp has its value. Measured latencies hold a share of their loop's overhead (4.21 cycles
// for an FFMA of 4), so results come at the nearest whole cycle.
#pragma once

#include "sim/trace/trace.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace onchip {

class Scoreboard {
 public:
  // The first cycle at which all operands are there, and the destination's earlier value, too.
  std::int64_t ready_at(const Instruction& instruction) const {
    std::int64_t cycle = instruction.destination == kNoRegister ? 0 : ready_[instruction.destination];
    for (const Register source : instruction.sources) {
      cycle = source == kNoRegister ? cycle : std::max(cycle, ready_[source]);
    }
    return cycle;
  }

  void write(const Instruction& instruction, double result_cycle) {
    const std::int64_t cycle = std::llround(result_cycle);
    const int end = std::min(kRegisters, instruction.destination + words_of_a_lane(instruction));
    for (int i = instruction.destination; i < end && i != kNoRegister; ++i) {
      ready_[i] = cycle;
    }
  }

 private:
  std::array<std::int64_t, kRegisters> ready_{};
};

}  // namespace onchip
