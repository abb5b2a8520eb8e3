// SPDX-License-Identifier: Apache-2.0
// Plans with tails, as a planner makes them, but with as much of a row beyond the registers as a test asks for.
#pragma once

#include "model/sparse/row_assignment.hpp"
#include "model/plan/plan.hpp"
#include "model/workload/row_profile.hpp"

#include <cmath>

namespace onchip {

// The plan with the share `kept` of each row's slots in registers and all chunks beyond in shared memory; itself if no
// row has a tail then.
inline Plan with_tail(const Network& network, const Plan& whole, const RowProfile& rows, double kept) {
  Plan plan = whole;
  for (int r = 0; r < plan.rows_per_group; ++r) {
    plan.slots[r] = static_cast<int>(whole.slots[r] * kept);
  }
  const Tail tail = tail_of(network, plan, rows, /*exact=*/true);
  if (tail.fullest == 0) {
    return whole;
  }
  plan.tail_chunks = static_cast<int>(std::ceil(tail.mean));
  plan.longest_tail = tail.longest;
  plan.shared_chunks = tail.fullest;
  return plan;
}

}  // namespace onchip
