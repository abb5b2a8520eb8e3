// SPDX-License-Identifier: Apache-2.0
// The order in which a compiler would issue a straight line of code: at every cycle the oldest instruction whose
// operands it expects to be there, with a bounded number of loads ahead of their first use, so that registers suffice.
#pragma once

#include "sim/trace/trace.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

struct CompilerView {
  bool reorders = true;     // else: every instruction where it stands
  int loads_ahead = 10;     // seen in machine code for sm_90 where registers are to spare
  int window = 96;          // instructions considered beyond the oldest that waits
  int addresses_first = 0;  // integer operations that come before the first load, where there are so many
  int load_latency = 24, shuffle_latency = 24, half2_latency = 8, latency = 4;  // cycles that the compiler counts on
};

// Indices into `block`, every one once. Each value's users come after it; barriers and branches keep their place.
std::vector<std::uint32_t> list_schedule(std::span<const Instruction> block, const CompilerView& view = {});

}  // namespace onchip
