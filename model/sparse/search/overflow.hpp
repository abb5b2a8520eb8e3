// SPDX-License-Identifier: Apache-2.0
// What the registers hold of a shape's rows, and where the rest goes: to other groups of lanes, as splits of rows, to
// shared memory, or to L2. A shape is a sparse plan's SMs, lanes and rows of a group; its variants differ in the rest.
#pragma once

#include "model/plan/family.hpp"
#include "model/sparse/row_assignment.hpp"
#include "model/sparse/search/row_splits.hpp"

#include <array>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace onchip {

// Slots for the registers: those that all rows need, or half of them, or few.
using Fills = std::array<Slots, 3>;

// The overflow of one shape's rows, by how many slots are in registers and how rows are split: the same for many
// variants of a plan.
class Overflows {
 public:
  // `rows` must outlive it.
  Overflows(const RowProfile& rows, bool exact) : rows_(rows), exact_(exact) {}

  Overflow of(const SparseGeometry& geometry);
  bool exact() const { return exact_; }

 private:
  using Key = std::pair<Slots, std::array<int, 4>>;

  const RowProfile& rows_;
  bool exact_;
  std::vector<std::pair<Key, Overflow>> known_;
};

// How long the rows of groups are, by their number in the group: the lengths that none of them, half of them and most
// of them are below. Many shapes have groups of the same units.
class GroupLengths {
 public:
  using Lengths = std::array<int, std::tuple_size_v<Fills>>;

  // `rows` must outlive it.
  explicit GroupLengths(const RowProfile& rows) : rows_(rows) {}

  // Of so many groups on all SMs.
  std::span<const Lengths> of(int groups, int rows_per_group);

 private:
  const RowProfile& rows_;
  std::map<int, std::vector<Lengths>> known_;
  std::vector<int> lengths_;  // of one number, for the memory that it has
};

// What the variants of a shape have in common.
struct SparseShape {
  // `profile` must outlive it.
  SparseShape(const Recurrent& network, const SparsePlan& plan, const RowProfile& profile, GroupLengths& lengths);

  // The ways to split its long rows.
  const std::vector<SplitChoice>& splits(const SparseGeometry& geometry);

  const RowProfile& rows;
  Fills fills;
  Overflows overflows;
  bool long_rows;  // the longest are longer than by chance

 private:
  int units_of_splits_ = 0;
  std::vector<SplitChoice> splits_;
};

// Calls `consider` with the plan that has all weights in registers, if they fit or nothing else is asked for, and with
// those that overflow where rows are uneven or do not fit.
void consider_overflow(const Chip& chip, const Recurrent& network, const Constraints& constraints, SparseShape& shape,
                       SparsePlan plan, const Consider<SparsePlan>& consider);

// Whether rows of a shape may be split; and slots of a lane, over all its rows, that plans of it have at least.
bool may_split(std::optional<int> row_splits, const SparseGeometry& geometry, const RowProfile& rows);
double least_slots(const SparseGeometry& geometry, const RowProfile& rows, bool splits);

// The ways to split the long rows of a shape: where there are any, or it is asked for.
std::vector<SplitChoice> worthwhile_splits(const Recurrent& network, std::optional<int> row_splits,
                                           const SparsePlan& plan, SparseShape& shape);

// Calls `consider` with the plan split in each of these ways: in registers, or with overflow where they do not hold it.
void consider_splits(const Chip& chip, const Recurrent& network, const Constraints& constraints,
                     const std::vector<SplitChoice>& splits, SparseShape& shape, const SparsePlan& whole,
                     const Consider<SparsePlan>& consider);

// The overflow of a plan that has some, exactly, of all its rows.
SparsePlan with_exact_overflow(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                               const Constraints& constraints, SparsePlan plan);

// With the poll delay that is asked for, or the best.
SparsePlan with_poll_delay(const Chip& chip, const Recurrent& network, const Constraints& constraints, SparsePlan plan);
// Pipelined passes wait for their poll delay: calls `consider`, which must outlive it, with plans that have theirs, if
// they are worth it without.
Consider<SparsePlan> with_poll_delays(const Chip& chip, const Recurrent& network, const Constraints& constraints,
                                      const Consider<SparsePlan>& consider);

}  // namespace onchip
