// SPDX-License-Identifier: Apache-2.0
// The exchange of the state between all SMs, step after step, event by event: every warp's polls travel to L2, wait
// there for one another, see what has arrived, and travel back.
//
// L2 is two halves; every line of the state is at home in one, and half of all SMs are near to each. An SM asks its own
// half, which takes a copy of what is at home in the other:
//
//   request              half a latency to the SM's half; a slice serves one after another
//   line at home there   what has arrived is seen; half a latency back
//   copy                 the same, of what had arrived when the copy was made; a store makes it invalid
//   neither              a crossing: half of it to the line's home, half of it back with a new copy, for all who wait
//   store                half a latency to L2, and half a crossing if the line's home is the other half; then visible
//                        at home, and half a crossing later the other half's copy is invalid
//   data                 into the SM at its bandwidth
//   wait                 of a warp before its first poll, as the plan says; then it begins its first round: an empty
//                        word and an address each
//   next poll            of a warp that misses a word, after it has seen what came, of the lines it misses
//   round                once all words of a round are there, they are stored to shared memory, 4 wavefronts per warp
//   barrier              some cycles after the last round (exchange.before_barrier); then the next step's body begins
//
// The crossing follows from the signal between two SMs that is measured: a store, half a crossing in half of all pairs;
// a poll that waits for half a period, a latency, and comes back in half of one; and where the poller is far from the
// line's home, the invalidation, half a crossing, and the new copy, one. On average that is 1.5 latencies and one
// crossing. The latency is not the same for all SMs: from the nearest to the farthest lies a tenth of it on an H200, so
// that even where all emit at once some poll too early for others.
//
// So a poll that comes too early costs more than itself: it leaves a copy behind that the next one has to wait for. On
// an H200 a step of 128 SMs, 8 KiB and nothing else takes 1580 cycles if the first poll follows the store at once, 1340
// if it waits for 120 cycles, 1250 if it waits for 320 (microbench.csv of experiments/data, 512 threads).
//
// Each SM's body takes the same time in every step (the same instructions from a common start), so only the exchange is
// simulated again and again, until the steps are steady.
#pragma once

#include "model/chip/chip.hpp"
#include "model/plan/choices.hpp"

#include <cstdint>
#include <numeric>
#include <vector>

namespace onchip {

// A wait is a loop that reads the clock (CS2R, IADD3, ISETP and a branch), by machine code for sm_90: cycles of a pass,
// and what the wait takes beyond its cycles, for it sees the end half a pass late, and finishes its pass.
inline constexpr double kWaitPassCycles = 26, kBehindWait = 34;

// Of the SMs.
inline double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// When words of the next state, of one line of L2, leave their SM, in cycles from the barrier after staging.
struct Emission {
  std::int32_t first_word = 0, words = 1;
  double cycle = 0;
};

struct SmBody {
  double cycles = 0;  // from the barrier after staging to the last emission
  std::vector<Emission> emissions;
  std::vector<double> warp_end;  // [warps]: when each warp begins to wait for the next state
  double computing = 0;          // until the SM may compute something else: where passes are pipelined, before it emits
};

// Appends to the emissions, together with those before it that left at the same cycle for the same line.
void add_emission(SmBody& body, int line_words, std::int32_t word, double cycle);

struct ExchangeShape {
  std::int64_t state_words = 0;
  int threads = 0;              // per SM
  int loads_in_flight = 1;      // words of a thread and round
  int poll_delay = 0;           // cycles that a warp waits before its first poll
  int line_words = kLineWords;  // of the state in each line of L2, a power of two
  // Instructions with which a poll computes each word's address, one on the result of the other; 0: the addresses are
  // kept from poll to poll.
  int address_instructions = 0;
  int placing_instructions = 0;  // with which the place in shared memory of each word of a round is found
  // Of bulk copies (kernels/sparse/bulk_copy.cuh), from the last word that is published until all are there; 0: warps
  // poll.
  double bulk_cycles = 0;
  // How many times as long as alone the warps that poll take for what they issue, and for what they store: where others
  // compute beside them.
  double issue_slowdown = 1, store_slowdown = 1;
  // Where polls go into registers (sim/trace/step_shape.hpp); an SM's warps then wait for their own words only, and the
  // SM goes on when all have them.
  std::int64_t polled_words = 0, warp_words = 0, group_words = 0;
  int group_sms = 0;
  int word_bytes = 16;
};

struct ExchangeOptions {
  int warmup_steps = 3, steps = 5;
  bool free = false;  // the exchange takes no time
};

struct ExchangeRun {
  double step_cycles = 0;  // mean over the steps after the warm-up
  // [passes][SMs], of the first counted step: when the body begins, when its last word is emitted, and when the next
  // state's part is there.
  std::vector<std::vector<double>> begun, emitted, released;
  double polls = 0;  // of lines, per step and SM
};

// Where passes are pipelined (kernels/sparse/pipeline.cuh): the parts of a state are computed one after another, each
// as soon as the SM has it and has done with the one before; then warps that do nothing else fetch the same part of the
// next state, part after part. Each part is an exchange of its own.
//
// `bodies`: [passes][SMs], their emissions counted from the first word of the pass; `warp_end` is when the warps that
// fetch may begin. `shape`: of one pass.
ExchangeRun run_pipelined(const Chip& chip, const ExchangeShape& shape, const std::vector<std::vector<SmBody>>& bodies,
                          const ExchangeOptions& options = {});

// One pass, whose SMs go on when the next state is there. Every word of the state is emitted by one SM; those that none
// emits are there from the start.
ExchangeRun run_exchange(const Chip& chip, const ExchangeShape& shape, const std::vector<SmBody>& bodies,
                         const ExchangeOptions& options = {});

// ---- its microbenchmark ---------------------------------------------------------------------------------------------

// The microbenchmark kernels/microbench/exchange.cu, simulated: an exchange step after step, with nothing between its
// two barriers but the load of what a thread emits next. Which instructions stand there is read off machine code for
// sm_90.
struct ExchangeBench {
  int state_bytes = 0;  // whole 16-byte words, the same number for each SM
  int sms = 0, threads = 0, loads_in_flight = 1;
  int poll_delay = 0;  // cycles, see SparsePlan
};

// Cycles per step.
double simulate_exchange_bench(const Chip& chip, const ExchangeBench& bench, const ExchangeOptions& options = {});

}  // namespace onchip
