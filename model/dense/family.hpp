// SPDX-License-Identifier: Apache-2.0
// What the dense persistent family provides (plan/family.hpp).
#pragma once

#include "model/dense/geometry.hpp"
#include "model/dense/price.hpp"
#include "model/plan/family.hpp"

#include <string>

namespace onchip {

inline std::string beyond_limits(const Recurrent& network, const DensePlan&) {
  return beyond_state(network);
}
void check(const Recurrent& network, const DensePlan& plan);
void check_rows(const Recurrent& network, const DensePlan& plan, const RowProfile& rows);

Footprint footprint(const Chip& chip, const DenseGeometry& geometry);
// A share of a resource below that of all plans that differ from this one in loads in flight and in where tiles are, of
// which those in shared memory take so large a share of their room.
double least_overload(const Chip& chip, const DenseGeometry& geometry, double share, Tier most);
// The same of plans that differ in the number of threads, too, with a time below theirs.
Bound least_of_sms(const Chip& chip, const DenseGeometry& geometry, double share, Tier most);

// The words of a bitmap plan's tiles are as many as is expected of rows like these.
void for_each_candidate(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                        const Constraints& constraints, const Consider<DensePlan>& consider);

// Where there is a choice, what the plan would be with its weights stored otherwise: "; stored as dense, 0.31 us
// slower,
// ...".
std::string remark(const Chip& chip, const Recurrent& network, const RowProfile& rows, const Constraints& constraints,
                   const DensePlan& plan);

// Counts the words of a bitmap, if the mask is known, and gives a plan the delay before its first poll.
DensePlan settled(const Chip& chip, const Recurrent& network, const RowProfile& rows, const Constraints& constraints,
                  const DensePlan& plan);

std::string why_none(const Chip& chip, const Recurrent& network, const Constraints& constraints, const DensePlan&);

// The plan with the given shape; all tiles in registers, nothing is checked against the chip. `batch_groups` divides
// the batch.
DensePlan shape_dense_plan(const Recurrent& network, int sms, int threads, int batch_groups = 1,
                           Storage storage = Storage::dense);

}  // namespace onchip
