// SPDX-License-Identifier: Apache-2.0
// When the rows of a block read what lies outside of it, in each step a place or none. An access is of `classes`
// neighbouring rows, whose places have no bank conflict if they differ modulo `classes`, or are the same: 8 places of
// 16 bytes.
//
// With each entry an edge from its row to the class of its place, the steps of an access are the colours of the edges
// of a bipartite multigraph: as many are enough as the longest row or the busiest class has entries, whichever is more
// (König, 1916). Edge by edge: where the first colours that are free at its ends differ, those of a path of these two
// colours change places; O(entries * classes). Rows that read the same places take fewer steps if they do so together
// (read_steps.hpp), which is tried, too.
//
// A class of more entries than there are steps is cut in two: each entry too many is a conflict, and no more are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

inline constexpr std::int32_t kBubble = -1;

struct GatherSteps {
  int rows = 0, steps = 0;
  std::vector<std::int32_t> entry;  // [steps, rows]: which of its row's entries, or kBubble
  std::vector<std::int32_t> place;  // [steps, rows]: the entry's, or one of the spare places, without a conflict
  std::int64_t entries = 0;
  std::int64_t conflicts = 0;  // wavefronts beyond one for each access

  std::int64_t bubbles() const { return std::int64_t{steps} * rows - entries; }
};

// The fewest steps without a conflict; or, if a step costs so many wavefronts, those of which steps and conflicts
// together cost least. places: of each row's entries; the last access may have fewer rows. From `spare` on, a
// multiple of `classes`, are `classes` places that nobody writes.
GatherSteps gather_steps(std::span<const std::span<const std::int32_t>> places, std::int32_t spare, int classes = 8,
                         double step_wavefronts = 0);

}  // namespace onchip
