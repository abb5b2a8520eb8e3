// SPDX-License-Identifier: Apache-2.0
// How long a step of a training recurrence takes.
//
// Dense (kernels/training/device/training_recurrence.cu): a sub-batch of a warp group is a sum, one after another:
//
//   exchange    what a sub-batch waits whatever it computes; where a warp group has no other, part of a signal from SM
//               to SM
//   staging     the sub-batch's state, at the rate at which it is seen to come from L2; a round trip for each group of
//               spans that is asked for late, where products do not hide it
//   arithmetic  the tensor cores' products of the busiest partition
//   gather      tiles of weights that come from shared memory, half of it hidden
//   reduction   the warps' sums into shared memory and out of it, half of it hidden
//   split       SMs of a cluster add up their sums: cluster.sums + cluster.sums_per_byte * bytes that an SM receives
//   activation  the cell, a warp of units after another: training_item_warp
//
// A warp group computes its sub-batches one after another. Two warp groups compute at the same time, and a sub-batch
// then takes training_beside times as long. Launches, each of a part of the samples, come one after another.
//
// Sparse (kernels/training/device/sparse_recurrence.cu): sub-batches are launches, one after another; split and
// activation as those of dense ones, and
//
//   exchange    as inference exchanges a state (exchange/exchange_time.hpp), here its first plane, of one pass; and
//               sparse_training_turn
//   staging     that plane; of the others their way through the pipe of shared memory, which the gathers need, too, a
//               thread's looks at their words, and what does not come while the one before is computed
//   gather, arithmetic, reduction
//               as those of a sparse plan with a matrix as large as an SM's block (sparse/price.hpp); and
//               sparse_training_tile for each pass over a tile
#pragma once

#include "model/plan/prediction.hpp"
#include "model/training/recurrence_plan.hpp"
#include "model/training/sparse_recurrence.hpp"

namespace onchip {

// Of a step of all sub-batches. Throws InputError for a plan that the kernel does not have.
Price recurrence_price(const Chip& chip, const TrainingSize& size, const RecurrencePlan& plan, bool is_backward);
Price recurrence_price(const Chip& chip, Precision precision, const SparseRecurrence& recurrence);

}  // namespace onchip
