// SPDX-License-Identifier: Apache-2.0
#include "sim/machine/pipes.hpp"

namespace onchip {

namespace {

// Of the microbenchmarks, 64 dependent FFMA and the branch back to the first of them take 13.3 cycles more than the
// FFMAs' 4 each; of LOP3, IADD3, SHF and PRMT 13 to 14.
constexpr double kBranchCycles = 13;

}  // namespace

TimingTable timing_table(const Chip& chip) {
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

}  // namespace onchip
