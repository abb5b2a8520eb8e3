// SPDX-License-Identifier: Apache-2.0
// The part of a layout that is joined rows: which lanes have what, how many slots that takes, and what stands in them
// (model/joined_rows.hpp, model/joined_block.hpp).
#pragma once

#include "model/layout.hpp"
#include "model/mask.hpp"

namespace onchip {

// Sets what every lane has of the rows of its unit, or of its SM's (Layout::joined). Throws InputError if an SM's do
// not fit.
void join_rows_of(Layout& layout, const SparseMatrix& matrix);

// Slots of a warp's units whose first rows are its groups' r-th. Throws InputError if a unit's rows do not fit.
int joined_slots_of_warp(const Layout& layout, const SparseMatrix& matrix, int sm, int r, int warp);

// Fills them.
void pack_joined(Layout& layout, const SparseMatrix& matrix, int sm, int r, int warp);

}  // namespace onchip
