// SPDX-License-Identifier: Apache-2.0
// A step of a training recurrence, simulated: some steps of one SM cycle by cycle (sim/machine/sm.hpp), of which the
// last are counted. All SMs do the same, so the states that this one waits for are published when it publishes its own:
// what one SM stores another sees after the way to L2 and back, with a crossing of its halves (sim/exchange).
//
// The instructions and addresses with which kernels/training/device/training_recurrence.cu does some steps of a
// training recurrence on one SM, forward or backward. Every SM does the same, each with units and columns of its own.
//
//   multiply   polls the sub-batch's state, group after group, and multiplies it (sim/dense/products.hpp); asks for
//              that of the warp group's next sub-batch
//   sums       the warps' sums to shared memory; barrier of the warp group; what each item needs of them. In a cluster
//              the others' sums, too, which the SMs send each other
//   cell       lstm_*.cuh, gru_*.cuh: the cell or its derivative, the words that are published, what the products read;
//              what the next sub-batch needs is asked for
//
// Of a stack whose layers are on the SMs at once, half of the warps poll and multiply the state of the layer below. It
// is that of a step later, published at the same time as the own one, whose addresses stand for it.
//
// How many instructions there are beside those that the source says, and where it branches, is read off machine code
// for sm_90 of LSTMs.
#pragma once

#include "model/chip/chip.hpp"
#include "model/training/training_plan.hpp"
#include "sim/machine/published.hpp"
#include "sim/simulate.hpp"
#include "sim/trace/trace.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace onchip {

enum class RecurrencePart : std::uint8_t { exchange, multiply, sums, barrier, split, cell };
inline constexpr std::array<std::string_view, 6> kRecurrencePartNames{"exchange", "multiply", "sums",
                                                                      "barrier",  "split",    "cell"};
constexpr std::string_view name(RecurrencePart part) {
  return kRecurrencePartNames[static_cast<std::size_t>(part)];
}

struct RecurrenceTrace {
  std::vector<BlockTrace> warp_groups;  // of an SM, beside each other
  // Of the first warp of each, which has work of every kind: what each of its instructions is part of.
  std::vector<std::vector<RecurrencePart>> parts;
  // A part of them: a sub-batch's state of eight samples; its sums from the SMs of the cluster.
  Published states, sums;
};

// What a forward pass does in its place: whether a backward follows, for which gates are kept; of a stack whose layers
// are on the SMs at once, the first has its input's products, and the last leaves its output.
struct LayerRole {
  bool keeps = true, is_first = true, is_last = true;
};

// Cycles until what is stored can be loaded, of states by other SMs and of sums by those of the cluster; from a
// sub-batch's last poll to its barrier, beside what is written down; of a fence.
struct ExchangeTimes {
  double state = 0, sums = 0, before_barrier = 0, fence = 0;
};

RecurrenceTrace trace_recurrence(const TrainingSize& size, const RecurrencePlan& plan, bool is_backward, int steps,
                                 const ExchangeTimes& cycles, const LayerRole& role = {});

// Of an address in what a trace's states are: the step whose state it is.
constexpr std::int64_t step_of_state(const RecurrenceTrace& trace, const RecurrencePlan& plan, int sample_tiles,
                                     std::uint64_t address) {
  return static_cast<std::int64_t>((address - trace.states.begin) / trace.states.part_bytes) /
         (std::int64_t{plan.sub_batches} * sample_tiles);
}

struct RecurrenceRun {
  double step_us = 0;
  // They sum to the step: what the first warps of the warp groups spend it on, on average, by RecurrencePart.
  std::array<double, kRecurrencePartNames.size()> parts_us{};
  // Of an SM and step.
  double polls_in_vain = 0;      // loads of the state that found nothing, which the others do not count
  double shared_wavefronts = 0;  // of loads and stores
  double state_bytes = 0;        // polled
  double published_bytes = 0;    // of the own state
  double l2_bytes = 0;           // loaded and stored, these among them

  RecurrencePart binding() const;  // the largest part
};

// Without `options.exchange` what is stored is there at once; all SMs take as long (options.skew). Throws InputError
// for a plan that the kernel does not have.
RecurrenceRun simulate_recurrence(const Chip& chip, const TrainingSize& size, const RecurrencePlan& plan,
                                  bool is_backward, const SimulationOptions& options = {}, const LayerRole& role = {});

}  // namespace onchip
