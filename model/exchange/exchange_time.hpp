// SPDX-License-Identifier: Apache-2.0
// Time of one all-to-all exchange of the state: emit, L2, poll, copy to shared memory. One formula, which the model
// evaluates and the calibration fits (kernels/microbench/fit.cpp). What a step waits for it where it overlaps
// with computing: pipelined_cycles() in model/sparse/price.cpp.
//
//   cycles = signal + 3 * lds_latency + latency + per_sm * sms + late_bytes / bytes_per_cycle
//            + round_trip * (rounds - 1) + per_word * looks + per_warp * warps + 2 block barriers
//   late_bytes = 128 for each line of L2 that the state lies in, half as many for the first 256 of them
//   rounds     = ceil(16-byte words of a thread / loads in flight)
//   looks      = words of a thread in flight, none if every thread has just one word
//
// Why these terms, on an H200 (the chip file has the constants with their errors): the latency grows with the number of
// SMs that write and poll; an SM gets lines, however few of their words are the state's (relu 2304 B=4 takes 1.50 us
// with 8 of them, 1.62 with 4, 1.82 with 2, 2.37 with 1), and the first while the last SM's are on their way; a round
// trip is for words beyond those first in flight, with the looks at them; a thread looks at its words one after the
// other, each behind a branch, but where all threads have one word there is none in the loop (exchange.cuh), which is
// some 50 cycles faster; and every warp that polls is in the others' way. SMs that write little have lines of their
// own (line_words_for in model/exchange/state.hpp); where they share them, it takes longer than this says.
#pragma once

#include "model/chip/chip.hpp"
#include "model/plan/choices.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace onchip {

struct Exchange {
  double bytes = 0;  // of the state, as exchanged
  int sms = 0, threads = 0, loads_in_flight = 1;
  int line_words = kLineWords;  // of the state in a line of L2
};

// What the constants are multiplied with, in the order latency, per_sm, 1 / bytes_per_cycle, round_trip, per_word,
// per_warp. How much of how many lines is hidden was chosen by the same exchanges as the constants.
inline std::array<double, 6> exchange_terms(const CostValues& cost, const Exchange& exchange) {
  constexpr double kLineBytes = 16 * kLineWords;
  const double words = exchange.bytes / 16, lines = words / exchange.line_words;
  const double late_bytes =
      kLineBytes * (lines - cost[Cost::exchange_hidden_share] * std::min(lines, cost[Cost::exchange_first_lines]));
  const double of_thread = std::ceil(words / exchange.threads);
  const double rounds = std::ceil(of_thread / exchange.loads_in_flight);
  const double looks = words == exchange.threads ? 0 : std::min<double>(of_thread, exchange.loads_in_flight);
  return {1, static_cast<double>(exchange.sms), late_bytes, rounds - 1, looks, exchange.threads / 32.0};
}

inline double block_barrier_cycles(const Chip& chip, int threads) {
  return chip.block_barrier_cycles + chip.block_barrier_per_warp_cycles * threads / 32;
}

struct ExchangeCycles {
  double latency = 0;  // until the first words are there, with both block barriers
  double copying = 0;  // until all are in shared memory
};
// From the last sum of an SM to the first word in another: through the outbox and the state, both in shared memory, and
// the signal between them, which no exchange does without; then what storing and polling take beyond these.
inline double through_shared_cycles(const Chip& chip) {
  constexpr int kThroughShared = 3;  // written and read: the state, and the outbox
  return kThroughShared * chip.lds_latency_cycles;
}
inline double first_word_cycles(const Chip& chip) {
  return chip.signal_cycles + through_shared_cycles(chip) + chip.exchange_latency_cycles;
}
inline ExchangeCycles exchange_cycles(const Chip& chip, const Exchange& exchange) {
  const std::array<double, 6> terms = exchange_terms(chip.cost, exchange);
  return {first_word_cycles(chip) + chip.exchange_per_sm_cycles * terms[1] + chip.exchange_per_warp_cycles * terms[5] +
              2 * block_barrier_cycles(chip, exchange.threads),
          terms[2] / chip.exchange_bytes_per_cycle_per_sm + chip.exchange_round_trip_cycles * terms[3] +
              chip.exchange_per_word_cycles * terms[4]};
}

// What no exchange is below: a store that one SM makes and another sees, of the farthest two of so many SMs, for each
// waits for all others. These are at least as far apart as the mean of their pairs, which is that of all pairs where
// they are all SMs; else less by as much as the other pairs may be farther apart than the mean.
inline double least_signal_cycles(const Chip& chip, int sms) {
  if (sms < 2) {
    return 0;
  }
  const double share = std::min(1.0, sms / chip.sm_count), pairs = share * share;
  return std::max(0.0, chip.signal_cycles - std::min(1.0, (1 - pairs) / pairs) * chip.signal_cycles.half_width);
}

// The same where words go from the cells to L2, and from there to the products of all warps
// (kernels/dense/dense_persistent.cu):
//
//   cycles = signal + 2 block barriers + stores / stores_per_cycle + shared_word * shared_words
//            + (word * lanes + look_per_word * warps_per_partition) * words
//
// A store that one SM makes and another sees (exchange.signal of the chip file) is all that is left of the latency. The
// rest was fitted to steps of dense_shapes.csv and families.csv (experiments/data), of plans of many shapes on an H200:
// stores of a sample's neighbouring units, which all SMs make at about the same time; words that are not of one SM,
// which are found half there; and the words that a thread asks for at once, which come for as many lanes as there are
// samples, and which all warps of its partition look at (exchange.look_per_word).
struct DirectExchange {
  int threads = 0;                 // of an SM
  double warps_per_partition = 0;  // of those that ask
  double stores = 0;               // of all SMs, each of neighbouring units of a sample
  double words = 0;                // of 16 bytes, that a thread asks for before it looks at the first
  double lanes = 1;                // of a warp: the share that asks
  double shared_words = 0;         // SMs that a word is of, beyond the first, on average
};
inline ExchangeCycles direct_exchange_cycles(const Chip& chip, const DirectExchange& exchange) {
  return {chip.signal_cycles + 2 * block_barrier_cycles(chip, exchange.threads) +
              exchange.stores / chip.cost[Cost::dense_stores_per_cycle] +
              chip.cost[Cost::dense_shared_word] * exchange.shared_words,
          (chip.cost[Cost::dense_word] * exchange.lanes + chip.look_per_word_cycles * exchange.warps_per_partition) *
              exchange.words};
}

// The same by flags and bulk copies, of what is copied together (kernels/sparse/bulk_copy.cuh): a fence until the words
// are in L2, the flag's way, the copy's way and its bytes, and on either side what orders one kind of access after the
// other. All but the bytes is counted in signals, as many as steps of bulk_copy.csv (experiments/data) took on an H200,
// and the bytes come at a share of the rate of words, read off the same steps. The warp that publishes also waits for a
// fence before each flag: Cost::bulk_fence_signals, in pipelined_cycles().
inline ExchangeCycles bulk_exchange_cycles(const Chip& chip, double bytes, int threads) {
  return {chip.cost[Cost::bulk_signals] * chip.signal_cycles + 2 * block_barrier_cycles(chip, threads),
          bytes / (chip.cost[Cost::bulk_rate_share] * chip.exchange_bytes_per_cycle_per_sm)};
}

// The same inside a cluster: every SM stores its part of the state to all SMs, each of which receives all of it; then a
// block barrier, before the part of the next state is complete. All of it has come before any of it is used.
//
//   cycles = signal + 3 * lds_latency + latency + per_sm * sms + per_warp * warps + bytes / bytes_per_cycle
//            + per_byte_and_sm * bytes * sms + 2 block barriers
//
// What the constants are multiplied with, in this order.
inline std::array<double, 5> cluster_terms(double bytes, int sms, int threads) {
  return {1, static_cast<double>(sms), threads / 32.0, bytes, bytes * sms};
}
inline ExchangeCycles cluster_exchange_cycles(const Chip& chip, double bytes, int sms, int threads) {
  const std::array<double, 5> terms = cluster_terms(bytes, sms, threads);
  return {chip.cluster_latency_cycles + chip.cluster_per_sm_cycles * terms[1] +
              chip.cluster_per_warp_cycles * terms[2] + 2 * block_barrier_cycles(chip, threads),
          terms[3] / chip.cluster_bytes_per_cycle + chip.cluster_per_byte_and_sm_cycles * terms[4]};
}

}  // namespace onchip
