// SPDX-License-Identifier: Apache-2.0
// How a dense recurrence of an LSTM or GRU is laid on the SMs (training_recurrence.cu): either pass of a training, or,
// as a family of recurrent networks, inference of batches that one SM computes as several sub-batches
// (recurrence_family.hpp).
#pragma once

#include "model/base/found.hpp"
#include "model/plan/choices.hpp"
#include "model/plan/field.hpp"
#include "model/training/training_reference.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <string_view>

namespace onchip {

inline constexpr int kMostLayersAtOnce = 16;

struct RecurrencePlan {
  using Workload = Recurrent;
  static constexpr std::string_view kName = "dense_pipelined";
  static constexpr bool kIsOnChip = true;

  int batch_groups = 1;     // groups of SMs, each with all weights and a share of the samples
  int sub_batches = 1;      // of a group's samples, one after another on the same SMs (software pipelining)
  int warps = 8;            // of a warp group
  int split = 1;            // backward: SMs of a cluster, which share the columns; 1, 2 or 4
  int shared_tiles = 0;     // of a warp's 16 x 16 tiles of weights, in shared memory; the rest in registers
  int loads_in_flight = 8;  // of 16 bytes, of a lane that polls
  int poll_delay = 0;       // cycles
  int ahead = 16;           // steps from emptying a word of the ring to publishing there; the ring has twice as many
  int units = 16;           // of an SM, a multiple of 8; where a backward follows 16 or 32
  int warp_groups = 1;      // of an SM, each with all of its rows, and with sub-batches of its own
  int launches = 1;         // one after another, each of a part of the samples
  int layers = 1;           // of a stack, on the SMs at once, each a step behind the one below (stack.hpp)
  int interleaved = 0;      // where no backward follows: 1 if a thread finishes its items side by side

  Tier tier() const { return shared_tiles > 0 ? Tier::shared_memory : Tier::registers; }
  friend bool operator==(const RecurrencePlan&, const RecurrencePlan&) = default;
};
std::span<const Field<RecurrencePlan>> fields(const RecurrencePlan&);
// Of a pass of a training, too; else only where nothing is kept.
constexpr bool is_of_trainings(const RecurrencePlan& plan) {
  return (plan.units == 16 || plan.units == 32) && plan.interleaved == 0;
}
// Items of a thread, of a sub-batch of so many samples; all are of one unit.
constexpr int items_of_thread(int samples, const RecurrencePlan& plan) {
  const int in_turn = 32 * plan.warps / plan.units * plan.units;
  return (samples * plan.units + in_turn - 1) / in_turn;
}

// Samples that a kernel has room for: it serves all batches that have the same. Less than a quarter more than the
// batch, and seven at most.
constexpr int kernel_batch(int batch) {
  const int step = std::clamp(static_cast<int>(std::bit_ceil(static_cast<unsigned>(batch))) / 8, 1, 8);
  return (batch + step - 1) / step * step;
}

// What follows from size and plan.
struct RecurrenceShape {
  int sms = 0;                          // of a batch group
  int samples = 0, launch_samples = 0;  // of a sub-batch, and of all of a launch
  int row_tiles = 0, sample_tiles = 0;  // of an SM's sums
  int spans = 0, warp_spans = 0;        // of 32 columns, of a state and of a warp
  int source_warps = 0;                 // that share a state out: of a stack, half of them
  int tiles = 0;                        // of a warp
  int blocks = 0, threads = 0;          // of all layers; of a block: of a warp group threads / warp_groups
  bool ragged = false;                  // see ONCHIP_RAGGED in dense/multiply.cuh
  std::size_t shared_bytes = 0, carry_bytes = 0, packed_bytes = 0, ring_bytes = 0, bias_bytes = 0, progress_bytes = 0;
};
// Throws InputError for a plan that the kernel does not have.
RecurrenceShape recurrence_shape(const TrainingSize& size, const RecurrencePlan& plan, bool is_backward);

inline constexpr int kRegistersOfSm = 65536;  // of every chip that there is
// Registers of a thread: what a kernel without a tile of weights needs, and what there is, of `registers` of an SM; the
// compiler has the last word.
struct RecurrenceRegisters {
  int others = 0, most = 0;
};
RecurrenceRegisters recurrence_registers(const RecurrenceShape& shape, const RecurrencePlan& plan,
                                         int registers = kRegistersOfSm);

// The plan with as many tiles in shared memory as registers have no room for. Throws InputError for a plan that the
// kernel does not have.
RecurrencePlan with_shared_tiles(const TrainingSize& size, RecurrencePlan plan, bool is_backward,
                                 int registers = kRegistersOfSm);
// The same; or nothing, with what it takes and what there is, where that has no room on so many SMs with so many bytes
// of shared memory a block.
Found<RecurrencePlan> with_room(const TrainingSize& size, RecurrencePlan plan, bool is_backward, int sms,
                                std::size_t shared_bytes, int registers = kRegistersOfSm);

}  // namespace onchip
