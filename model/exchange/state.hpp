// SPDX-License-Identifier: Apache-2.0
// The state that the SMs of a plan exchange: whose units are where, and how many bytes it has. Every family that
// exchanges one derives its geometry from this.
#pragma once

#include "model/plan/choices.hpp"
#include "model/workload/recurrent.hpp"

#include <cstdint>
#include <string>

namespace onchip {

inline std::string beyond_state(const Recurrent& network) {
  return network.batch <= kMostSamples ? "" : "takes at most " + std::to_string(kMostSamples) + " samples";
}

// The state is ordered by the SM that computes it: SM s owns units [s * units_per_sm, (s + 1) * units_per_sm), a whole
// number of 16-byte words, of which the last may be unused. In L2 it lies in lines of line_words words each, fewer than
// a line holds where fewer SMs should write the same one.
struct StateGeometry {
  int units_per_sm = 0;
  int state_units = 0;
  int blocks = 0;                   // all SMs that take part
  int samples = 1;                  // that are computed: the network's batch, or more
  int batch_padded = 1;             // samples that the carry has room for: the power of two at or above them
  std::int64_t exchange_bytes = 0;  // the state of one batch group, as exchanged
  std::int64_t state_stride = 0;    // bytes in L2 from one state to the next, of all batch groups
  std::int64_t barrier_bytes = 4;   // in L2, for barriers and flags of all SMs
  std::int64_t input_bytes = 0;     // of one step, in owner's order
};

// Bytes that a state of so many takes in lines of L2.
constexpr std::int64_t line_bytes(std::int64_t bytes, int line_words) {
  const std::int64_t in_line = 16 * line_words;
  return (bytes + in_line - 1) / in_line * (16 * kLineWords);
}

// The line_words that are best for SMs that write so many words of the state each, side by side, as measured on an
// H200: where many SMs write the same line, the exchange takes up to 0.4 us longer (kernels/persistent/state.cuh), but
// more lines take longer to poll: with two words of each SM in a line of their own, steps were 1 % longer on average
// than with eight, and up to 12 %.
constexpr int line_words_for(int words_of_sm) {
  return words_of_sm == 1 ? 1 : words_of_sm <= kLineWords / 2 ? kLineWords / 2 : kLineWords;
}

}  // namespace onchip
