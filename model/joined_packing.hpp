// SPDX-License-Identifier: Apache-2.0
// Filling the slots of lanes whose units' rows are joined (model/joined_rows.hpp).
#pragma once

#include <cstdint>
#include <vector>

namespace onchip {

// A non-zero, and the set of banks that its column is in.
struct PlacedElement {
  std::int64_t element = -1;
  int set = 0;
};

// A lane and its rows, by their numbers among those of the warp: of the first so many non-zeros before slot `begin`, of
// the second so many from there on; -1: none.
struct JoinedLane {
  int first = -1, second = -1;
  int of_first = 0, of_second = 0;
  int begin = 0;  // without a second: as many as there are slots
  int owner(int slot) const { return slot < begin ? first : second; }
};

// Which non-zero each of the lanes that are served together loads in each of its slots: [lanes, slots]; where it loads
// none, a set of banks for its padding. `rows`: as many non-zeros as the lanes have of each. No two of a slot are in
// the same set, where that can be; `merges`: what conflicts are left meet in few slots (model/conflict_merging.hpp).
std::vector<PlacedElement> pack_joined_lanes(const std::vector<JoinedLane>& lanes,
                                             const std::vector<std::vector<PlacedElement>>& rows, int slots,
                                             int bank_sets, bool merges);

// The same without regard to banks: every row's in their order, slot by slot of its lanes.
std::vector<PlacedElement> pack_in_order(const std::vector<JoinedLane>& lanes,
                                         std::vector<std::vector<PlacedElement>> rows, int slots);

// Which non-zeros of the rows go to the lanes [turns, lanes] of each turn: [turns, rows], as many as these have of
// each, so that every turn has about as many of every set.
std::vector<std::vector<std::vector<PlacedElement>>> deal_to_turns(const std::vector<std::vector<JoinedLane>>& lanes,
                                                                   const std::vector<std::vector<PlacedElement>>& rows,
                                                                   int bank_sets);

}  // namespace onchip
