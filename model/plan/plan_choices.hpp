// SPDX-License-Identifier: Apache-2.0
// The plans that are worth pricing, family by family: what the planner chooses from.
#pragma once

#include "model/chip/chip.hpp"
#include "model/plan/plan.hpp"
#include "model/workload/row_profile.hpp"

#include <functional>

namespace onchip {

using Consider = std::function<void(const Plan&)>;

// Whether the sparse family can do what is wished: it exchanges the state through L2, among all its SMs.
bool sparse_is_possible(const PlanWishes& wishes);
// Whether the dense family can: its tensor cores multiply 16-bit types, and what is wished of how sparse rows are
// stored, ordered and gathered means nothing to it.
bool dense_is_possible(const Chip& chip, const Network& network, const PlanWishes& wishes);

// Calls `consider` with every plan of the sparse family that the wishes allow. Tails are estimated, see settle_tails().
void for_each_sparse_plan(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                          const Consider& consider);

// Calls `consider` with every plan of the dense family of this storage, dense or structured_2_4, that the wishes allow.
// With dense ones those stored as bitmap: where dense ones have no room, and they do, or where they are wished. Words
// of their tiles are as many as is expected of rows like these, times `crowding`.
void for_each_dense_plan(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                         Storage storage, double crowding, const Consider& consider);

// Gives a sparse plan that has a tail the exact one, of all its rows.
void settle_tails(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                  Plan& plan);

}  // namespace onchip
