// SPDX-License-Identifier: Apache-2.0
// Which rows read shared memory in one access, so that few steps are enough (read_steps.hpp): those whose places
// are of each class about equally often, together. Greedy: rows by their length, longest first; to the longest row left
// comes, one by one, the row of a few candidates that leaves the classes' entries most equal (the least sum of their
// fourth powers), of those whose outputs are written without a conflict too, if there are any. No access has a shorter
// row than it would have by length alone. O(rows * candidates * classes).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

// An order of the rows in which each `classes` neighbours, from the first on, are an access. places: of each row's
// entries, of which those conflict that agree modulo `classes`.
std::vector<std::int32_t> order_by_access(std::span<const std::span<const std::int32_t>> places, int classes,
                                          int candidates = 64);

}  // namespace onchip
