// SPDX-License-Identifier: Apache-2.0
// How the recurrences of a training step of an LSTM or GRU are laid on the SMs (training_recurrence.cu).
#pragma once

#include "model/training/training_reference.hpp"

#include <cstddef>
#include <string>

namespace onchip {

struct RecurrencePlan {
  int batch_groups = 1;     // groups of SMs, each with all weights and a share of the samples
  int turns = 1;            // of a group's samples, one after another on the same SMs
  int warps = 8;            // of a warp group
  int split = 1;            // backward: SMs of a cluster, which share the columns; 1, 2 or 4
  int shared_tiles = 0;     // of a warp's 16 x 16 tiles of weights, in shared memory; the rest in registers
  int loads_in_flight = 8;  // of 16 bytes, of a lane that polls
  int poll_delay = 0;       // cycles
  int ahead = 16;           // steps from emptying a word of the ring to publishing there; the ring has twice as many
  int units = 16;           // of an SM; 16 or 32
  int warp_groups = 1;      // of an SM, each with all of its rows, and with turns of its own

  friend bool operator==(const RecurrencePlan&, const RecurrencePlan&) = default;
};

struct TrainingPlan {
  RecurrencePlan forward, backward;
  bool aligned = false;  // products of copies with rows of whole 16 bytes (kernels/training/training_products.hpp)
  bool beside = false;   // both directions at once, on half of the SMs each
};

// "groups=4 turns=1 warps=8 ..."
std::string text(const RecurrencePlan& plan);
// Of keys as text() writes them, those that differ: "turns=2 warps=16". Throws InputError for others.
RecurrencePlan changed(RecurrencePlan plan, const std::string& words);

// What follows from size and plan.
struct RecurrenceShape {
  int sms = 0;                          // of a batch group
  int samples = 0;                      // of a turn
  int row_tiles = 0, sample_tiles = 0;  // of an SM's sums
  int spans = 0, warp_spans = 0;        // of 32 columns, of an SM and of a warp
  int tiles = 0;                        // of a warp
  int blocks = 0, threads = 0;          // of a block; of a warp group: threads / warp_groups
  bool ragged = false;                  // see ONCHIP_RAGGED in dense/multiply.cuh
  std::size_t shared_bytes = 0, packed_bytes = 0, ring_bytes = 0, bias_bytes = 0;
};
// Throws InputError for a plan that the kernel does not have.
RecurrenceShape recurrence_shape(const TrainingSize& size, const RecurrencePlan& plan, bool is_backward);

// The plan with tiles moved to shared memory that registers have no room for. Throws InputError for one that is not
// possible on so many SMs with so many bytes of shared memory a block.
RecurrencePlan with_room(const TrainingSize& size, RecurrencePlan plan, bool is_backward, int sms,
                         std::size_t shared_bytes);

// Whether copies take less time than they save: cuBLAS multiplies rows that are not whole 16 bytes at a third of its
// rate.
bool gains_by_alignment(const TrainingSize& size);

}  // namespace onchip
