// SPDX-License-Identifier: Apache-2.0
// What the registers hold of a shape's rows, and where the rest goes: to other groups of lanes, as pieces of rows, to
// shared memory, or to L2. A shape is a sparse plan's SMs, lanes and rows of a group; its variants differ in the rest.
#pragma once

#include "model/sparse/row_splits.hpp"
#include "model/sparse/row_assignment.hpp"
#include "model/plan/plan_choices.hpp"

#include <array>
#include <utility>
#include <vector>

namespace onchip {

// Slots for the registers: those that all rows need, or half of them, or few.
using Fills = std::array<Slots, 3>;

// The tails of one shape's rows, by how many slots are in registers and how rows are cut: the same for many variants of
// a plan.
class Tails {
 public:
  Tails(const RowProfile& rows, bool exact) : rows_(rows), exact_(exact) {}

  Tail of(const Network& network, const Plan& plan);
  bool exact() const { return exact_; }

 private:
  using Key = std::pair<Slots, std::array<int, 4>>;

  const RowProfile& rows_;
  bool exact_;
  std::vector<std::pair<Key, Tail>> known_;
};

// What the variants of a shape have in common.
struct SparseShape {
  // `profile` must outlive it.
  SparseShape(const Network& network, const Plan& plan, const RowProfile& profile);

  // The ways to cut its long rows.
  const std::vector<Cut>& cuts(const Network& network, const Plan& plan);

  const RowProfile& rows;
  Fills fills;
  Tails tails;
  bool long_rows;  // the longest are longer than by chance

 private:
  int units_of_cuts_ = 0;
  std::vector<Cut> cuts_;
};

// Calls `consider` with the plan that has all weights in registers, if they fit or nothing else is wished, and with
// those that have a tail where rows are uneven or do not fit.
void consider_tiers(const Chip& chip, const Network& network, const PlanWishes& wishes, SparseShape& shape, Plan plan,
                    const Consider& consider);

// The ways to cut the long rows of a shape into pieces: where there are any, or it is wished.
std::vector<Cut> wished_cuts(const Network& network, const PlanWishes& wishes, const Plan& plan, SparseShape& shape);

// Calls `consider` with the plan as those ways have it: in registers, or with tails where they do not hold it.
void consider_cuts(const Chip& chip, const Network& network, const PlanWishes& wishes, const std::vector<Cut>& cuts,
                   SparseShape& shape, const Plan& uncut, const Consider& consider);

}  // namespace onchip
