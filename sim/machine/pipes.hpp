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

// Of the microbenchmarks, 64 dependent FFMA and the branch back to the first of them take 13.3 cycles more than the
// FFMAs' 4 each; of LOP3, IADD3, SHF and PRMT 13 to 14.
inline constexpr double kBranchCycles = 13;

inline TimingTable timing_table(const Chip& chip) {
  // A tanh is an exponential and a reciprocal with about five dependent fp32 instructions around them.
  const double special = std::max<double>(chip.arithmetic_latency_cycles,
                                          (chip.tanh_latency_cycles - 5 * chip.arithmetic_latency_cycles) / 2);
  // The measured chain is of shuffles and additions.
  const double shuffle = chip.shuffle_latency_cycles - chip.arithmetic_latency_cycles;
  TimingTable table;
  const auto set = [&](Operation operation, Unit unit, double issue, double latency) {
    table[static_cast<int>(operation)] = {unit, issue, latency};
  };
  set(Operation::integer, Unit::integer, chip.integer_issue_cycles, chip.arithmetic_latency_cycles);
  // HADD2.F32 and HFMA2 share a pipe and its rate. The measured half2_issue is better, and its latency longer: of plain
  // multiply-adds ptxas gives every other one to a second pipe (HFMA2.MMA), which cannot take one half of a register as
  // both, as the kernel's products do.
  set(Operation::half2, Unit::half, chip.conversion_issue_cycles, chip.arithmetic_latency_cycles);
  set(Operation::conversion, Unit::half, chip.conversion_issue_cycles, chip.arithmetic_latency_cycles);
  set(Operation::fp32, Unit::fp32, chip.fp32_issue_cycles, chip.arithmetic_latency_cycles);
  set(Operation::special, Unit::special, chip.special_issue_cycles, special);
  set(Operation::tensor, Unit::tensor, chip.tensor_issue_cycles, chip.tensor_latency_cycles);
  set(Operation::shuffle, Unit::load_store, chip.lds_instruction_cycles, std::max(1.0, shuffle));
  set(Operation::shared_load, Unit::load_store, chip.lds_instruction_cycles, chip.lds_latency_cycles);
  set(Operation::shared_store, Unit::load_store, chip.lds_instruction_cycles, 0);
  set(Operation::matrix_load, Unit::load_store, chip.lds_instruction_cycles, chip.lds_latency_cycles);
  set(Operation::shared_atomic, Unit::load_store, chip.lds_instruction_cycles, chip.lds_latency_cycles);
  set(Operation::global_load, Unit::load_store, chip.lds_instruction_cycles, chip.l2_latency_cycles);
  set(Operation::global_store, Unit::load_store, chip.lds_instruction_cycles, 0);
  set(Operation::async_copy, Unit::load_store, chip.lds_instruction_cycles, chip.l2_latency_cycles);
  set(Operation::barrier, Unit::barrier, 1, 0);
  set(Operation::other, Unit::none, 1, chip.arithmetic_latency_cycles);
  set(Operation::branch, Unit::none, 1, kBranchCycles);
  return table;
}

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
