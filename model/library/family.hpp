// SPDX-License-Identifier: Apache-2.0
// What a library provides as a family (plan/family.hpp): one plan, which every network can have.
#pragma once

#include "model/library/price.hpp"
#include "model/plan/family.hpp"

#include <string>

namespace onchip {

template <Library kLibrary>
std::string beyond_limits(const Recurrent&, const LibraryPlan<kLibrary>&) {
  return "";
}
template <Library kLibrary>
void check(const Recurrent&, const LibraryPlan<kLibrary>&) {}
template <Library kLibrary>
void check_rows(const Recurrent&, const LibraryPlan<kLibrary>&, const RowProfile&) {}
template <Library kLibrary>
void for_each_candidate(const Chip&, const Recurrent&, const RowProfile&, const Constraints&,
                        const Consider<LibraryPlan<kLibrary>>& consider) {
  consider({});
}
template <Library kLibrary>
LibraryPlan<kLibrary> settled(const Chip&, const Recurrent&, const RowProfile&, const Constraints&,
                              const LibraryPlan<kLibrary>& plan) {
  return plan;
}
template <Library kLibrary>
std::string why_none(const Chip&, const Recurrent&, const Constraints&, const LibraryPlan<kLibrary>&) {
  return "";
}

}  // namespace onchip
