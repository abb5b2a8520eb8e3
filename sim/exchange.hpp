// SPDX-License-Identifier: Apache-2.0
// The exchange of the state between all SMs, step after step, event by event: every warp's polls travel to the L2
// slices of their lines, wait there for one another, see what has arrived, and travel back.
//
//   store to visible     signal - L2 latency: the measured signal ends with a poll, which waits for half a period and
//                        returns in half a latency
//   poll                 half a latency to the slice; the slice serves one SM's look at a line after another; half a
//                        latency back; then into the SM at its bandwidth
//   next look            of a warp that misses a word, after it has looked at what came, at the lines it misses
//   round                once all words of a round are there, they are stored to shared memory, 4 wavefronts per warp
//   barrier              then the next step's body begins
//
// Each SM's body takes the same time in every step (the same instructions from a common start), so only the exchange is
// simulated again and again, until the steps are steady.
#pragma once

#include "model/chip.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

// When 16-byte words of the next state, of one line of L2, leave their SM, in cycles from the barrier after staging.
struct Emission {
  std::int32_t first_word = 0, words = 1;
  double cycle = 0;
};

struct SmBody {
  double cycles = 0;  // from the barrier after staging to the last emission
  std::vector<Emission> emissions;
  std::vector<double> warp_end;  // [warps]: when each warp begins to look for the next state
};

struct ExchangeShape {
  std::int64_t state_words = 0;  // of 16 bytes
  int threads = 0;               // per SM
  int loads_in_flight = 1;       // words of a thread and round
};

struct ExchangeOptions {
  int warmup_steps = 4, steps = 8;
  bool free = false;  // the exchange takes no time
};

struct ExchangeRun {
  double step_cycles = 0;              // mean over the steps after the warm-up
  std::vector<double> first_released;  // [SMs]: the barrier after staging of the first counted step
  std::vector<double> last_emitted;    // [SMs]: in that step
  std::vector<double> next_released;   // [SMs]: the barrier after staging of the step after
  double polls = 0;                    // looks at lines, per step and SM
};

// Every word of the state is emitted by exactly one SM.
ExchangeRun run_exchange(const Chip& chip, const ExchangeShape& shape, const std::vector<SmBody>& bodies,
                         const ExchangeOptions& options = {});

}  // namespace onchip
