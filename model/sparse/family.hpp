// SPDX-License-Identifier: Apache-2.0
// What the sparse persistent family provides (plan/family.hpp).
#pragma once

#include "model/plan/family.hpp"
#include "model/sparse/geometry.hpp"
#include "model/sparse/price.hpp"

#include <string>

namespace onchip {

inline std::string beyond_limits(const Recurrent& network, const SparsePlan&) {
  return beyond_state(network);
}
void check(const Recurrent& network, const SparsePlan& plan);
void check_rows(const Recurrent& network, const SparsePlan& plan, const RowProfile& rows);

Footprint footprint(const Chip& chip, const SparseGeometry& geometry);
// Below all plans that differ from this one as for least_step_us() (sparse/price.hpp): the bytes of an SM's state, and
// of its weights that registers have no room for.
double least_state_bytes(const SparseGeometry& geometry);
double least_bytes_beyond(const Chip& chip, const SparseGeometry& geometry, double least_slots);
// Likewise of all plans of its storage on as many SMs, for rows of so many non-zeros, with so many threads or with any.
double least_bytes_beyond_of_sms(const Chip& chip, const SparseGeometry& geometry, double nonzeros, int threads);
// With so many bytes the share of a resource, of plans whose weights lie in this tier at most.
double least_overload(const Chip& chip, const SparseGeometry& geometry, double state_bytes, double bytes_beyond,
                      Tier most);

// Overflow is estimated, see settled().
void for_each_candidate(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                        const Constraints& constraints, const Consider<SparsePlan>& consider);

// Gives a plan that has overflow the exact one, of all its rows, and a plan the delay before its first poll.
SparsePlan settled(const Chip& chip, const Recurrent& network, const RowProfile& rows, const Constraints& constraints,
                   const SparsePlan& plan);

std::string why_none(const Chip& chip, const Recurrent& network, const Constraints& constraints, const SparsePlan&);

// The plan with the given shape: threads, slots and tile follow from the rows. All weights in registers, as many slots
// as the longest row of each class takes; nothing is checked against the chip.
SparsePlan shape_sparse_plan(const Recurrent& network, const RowProfile& rows, Storage storage, int sms,
                             int lanes_per_row, int rows_per_group);
// Sets the slots of a plan, as many as the longest row of each class takes.
void give_slots(const Recurrent& network, const RowProfile& rows, SparsePlan& plan);

}  // namespace onchip
