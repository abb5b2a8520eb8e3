// SPDX-License-Identifier: Apache-2.0
// The arithmetic pipes of one partition, and what each class of instruction takes of them. A pipe that takes 1.26
// cycles per instruction on average starts one at 0, 1.26, 2.52, ..., so at whole cycles 0, 1, 2, 3, 5.
#pragma once

#include "model/chip/chip.hpp"
#include "sim/trace/trace.hpp"

#include <algorithm>
#include <array>

namespace onchip {

// half2 arithmetic and conversions of halves share one pipe.
enum class Unit : std::uint8_t { integer, half, fp32, special, tensor, load_store, barrier, none };
inline constexpr int kArithmeticPipes = 5;

// An access without an active lane comes back from the load/store unit without a round trip: 8 such global loads, each
// used by the next instruction, take 29 cycles each on an H100.
inline constexpr double kNoLanesLatencyCycles = 28;

struct OperationTiming {
  Unit unit = Unit::none;
  double issue_cycles = 0;    // of its unit; load_store: see sim/machine/load_store.hpp
  double latency_cycles = 0;  // issue to use of the result, without waiting
};
using TimingTable = std::array<OperationTiming, kOperationNames.size()>;  // by Operation

TimingTable timing_table(const Chip& chip);

class Pipe {
 public:
  bool can_start(std::int64_t cycle) const { return free_at_ < static_cast<double>(cycle + 1); }
  void start(std::int64_t cycle, double issue_cycles) {
    free_at_ = std::max(free_at_, static_cast<double>(cycle)) + issue_cycles;
  }
  std::int64_t next_start() const { return static_cast<std::int64_t>(free_at_); }

 private:
  double free_at_ = 0;
};

}  // namespace onchip
