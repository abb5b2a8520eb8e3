// SPDX-License-Identifier: Apache-2.0
// How long a step of a training recurrence takes (kernels/training/device/training_recurrence.cu).
//
// A turn of a warp group is a sum, one after another:
//
//   exchange    what a turn waits whatever it computes; where a warp group has no other turn, part of a signal from SM
//               to SM
//   staging     the turn's state, at the rate at which it is seen to come from L2; a round trip for each group of spans
//               that is asked for late, where products do not hide it
//   arithmetic  the tensor cores' products of the busiest partition
//   gather      tiles of weights that come from shared memory, half of it hidden
//   reduction   the warps' sums into shared memory and out of it, half of it hidden
//   split       SMs of a cluster add up their sums: cluster.sums + cluster.sums_per_byte * bytes that an SM receives
//   activation  the cell, a warp of units after another
//
// A warp group's turns come one after another. Two warp groups have their turns beside each other, each of which then
// takes training_beside times as long.
#pragma once

#include "model/plan/prediction.hpp"
#include "model/training/recurrence_plan.hpp"

namespace onchip {

// Of a step of all turns. Throws InputError for a plan that the kernel does not have.
Price recurrence_price(const Chip& chip, const TrainingSize& size, const RecurrencePlan& plan, bool is_backward);

// Of adding up the sums of a cluster of `split` SMs, each of which finishes so many items.
double split_cycles(const Chip& chip, int split, double items);

}  // namespace onchip
