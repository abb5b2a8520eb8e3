// SPDX-License-Identifier: Apache-2.0
// Machine instructions of a kernel's step by the pipe that takes them, and how fast the instruction caches supply
// them.
#pragma once

#include "model/chip/chip.hpp"

namespace onchip {

inline constexpr int kInstructionBytes = 16;

// Of one warp.
struct Instructions {
  double integer = 0;     // LOP3, SHF, PRMT, SEL
  double half2 = 0;       // HFMA2
  double conversion = 0;  // HADD2.F32: half to float
  double fp32 = 0;        // FFMA, FADD
  double load = 0;        // LDS, SHFL

  double all() const { return integer + half2 + conversion + fp32 + load; }
  friend Instructions operator+(const Instructions& a, const Instructions& b) {
    return {a.integer + b.integer, a.half2 + b.half2, a.conversion + b.conversion, a.fp32 + b.fp32, a.load + b.load};
  }
  friend Instructions operator*(double factor, const Instructions& i) {
    return {factor * i.integer, factor * i.half2, factor * i.conversion, factor * i.fp32, factor * i.load};
  }
};

// Cycles that a partition takes at least for each instruction of a loop of so many, however many of its warps issue it:
// they come from the SM's instruction cache or from beyond it. 0 where the loop stays in the partition's own.
inline double instruction_supply_cycles(const Chip& chip, double loop_instructions) {
  const double bytes = kInstructionBytes * loop_instructions;
  if (bytes <= chip.instruction_cache_bytes) {
    return 0;
  }
  return bytes <= chip.sm_instruction_cache_bytes ? chip.instruction_supply_cycles : chip.sm_instruction_supply_cycles;
}

}  // namespace onchip
