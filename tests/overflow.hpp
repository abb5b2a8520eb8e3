// SPDX-License-Identifier: Apache-2.0
// Plans with overflow, as a planner makes them, but with as much of a row beyond the registers as a test asks for.
#pragma once

#include "model/sparse/row_assignment.hpp"
#include "model/workload/row_profile.hpp"

#include <cmath>

namespace onchip {

// The plan with the share `kept` of each row's slots in registers and all chunks beyond in shared memory; itself if no
// row overflows then.
inline SparsePlan with_overflow(const Recurrent& network, const SparsePlan& whole, const RowProfile& rows,
                                double kept) {
  SparsePlan plan = whole;
  for (int r = 0; r < plan.rows_per_group; ++r) {
    plan.slots[r] = static_cast<int>(whole.slots[r] * kept);
  }
  const Overflow overflow = overflow_of(SparseGeometry(network, plan), rows, /*exact=*/true);
  if (overflow.fullest == 0) {
    return whole;
  }
  plan.overflow_chunks = static_cast<int>(std::ceil(overflow.mean));
  plan.longest_overflow = overflow.longest;
  plan.shared_chunks = overflow.fullest;
  return plan;
}

}  // namespace onchip
