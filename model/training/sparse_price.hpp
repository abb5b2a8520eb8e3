// SPDX-License-Identifier: Apache-2.0
// How long a step of a sparse training recurrence takes (kernels/training/device/sparse_recurrence.cu). Turns are
// launches, one after another; of a turn, a sum:
//
//   exchange    as inference exchanges a state (exchange/exchange_time.hpp), here its first plane, of one pass; and
//               sparse_training_turn
//   staging     that plane; of the others their way through the pipe of shared memory, which the gathers need, too, a
//               thread's looks at their words, and what does not come while the one before is computed
//   gather      as that of a sparse plan with a matrix as large as an SM's block (sparse/price.hpp)
//   arithmetic  likewise
//   reduction   likewise, and sparse_training_tile for each pass over a tile
//   split       SMs of a cluster add up their sums, as dense ones do
//   activation  the cell, a warp of units after another: training_item_warp
#pragma once

#include "model/plan/prediction.hpp"
#include "model/training/sparse_recurrence.hpp"

namespace onchip {

// Of a step of all turns.
Price sparse_recurrence_price(const Chip& chip, Precision precision, const SparseRecurrence& recurrence);

}  // namespace onchip
