// SPDX-License-Identifier: Apache-2.0
// Columns that two rows of a unit have in common: the state is loaded once for both.
//
// The rows of a unit (its gates) are summed by the same lanes. Where two of them have a non-zero in the same column,
// both products take the same element of the state; of two random rows of density d, the share d of either's columns is
// common. Every pair of a unit's rows has slots of its own (Plan::common_slots), each for one column and two values,
// all pairs as many. A column that three rows have is taken by one pair, one that four have by two. What is left of a
// pair's room takes columns of one of its rows alone, whose other value is zero, so that no slot is lost. Some room is
// kept for these: which they are can be chosen, so that a load reaches all banks alike (model/common_rows.hpp), while
// there are hardly more common columns than the pairs have room for.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace onchip {

inline constexpr int kMostGates = 4;
inline constexpr int kGateSets = 1 << kMostGates;  // a bit for each gate

struct GatePair {
  int first, second;  // places of two rows in their unit, or gates
};
// The pairs of so many rows, (0, 1), (0, 2), ..., (1, 2), ...
std::vector<GatePair> gate_pairs(int gates);
constexpr int number_of_pairs(int gates) {
  return gates * (gates - 1) / 2;
}
// The number of a pair among them.
constexpr int pair_of(int gates, GatePair pair) {
  return number_of_pairs(gates) - number_of_pairs(gates - pair.first) + pair.second - pair.first - 1;
}

// Of one unit: how many columns just the gates of a set have. [0]: nothing.
using ColumnSets = std::array<std::int32_t, kGateSets>;

// `count` columns of the set `from` of gates, of which a pair takes the gates `taken`, both of its own or one; the
// others of the set keep them.
struct Taking {
  int pair = 0, taken = 0, from = 0, count = 0;
};

// The columns that a pair takes of a unit, and those of them that may be common ones.
struct PairRoom {
  int columns = 0, common = 0;
  friend auto operator<=>(const PairRoom&, const PairRoom&) = default;
};

// What the pairs of a unit take, with so much room each: in this order, since a column of three gates and more may be
// taken once more. First what only two gates have, then what more have; then, into what is left of the room, columns of
// the gates that have most left.
std::vector<Taking> share_columns(const ColumnSets& columns, int gates, PairRoom room);

// Columns that are left to each gate.
std::array<int, kMostGates> columns_left(const ColumnSets& columns, int gates, const std::vector<Taking>& takings);

}  // namespace onchip
