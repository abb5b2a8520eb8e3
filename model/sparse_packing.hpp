// SPDX-License-Identifier: Apache-2.0
// Filling the slots of the rows that one warp works on at the same time.
#pragma once

#include "model/common_rows.hpp"
#include "model/delta_order.hpp"
#include "model/layout.hpp"
#include "model/mask.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

// The non-zeros of a row of W that no pair has.
std::int64_t own_length(const SparseMatrix& matrix, const CommonRows& common, std::int32_t row);

// What rows that are joined, of groups from `group` on whose r-th are the first, take beside their pieces: slots of all
// lanes.
std::vector<std::int64_t> slots_at(const Layout& layout, const SparseMatrix& matrix, int sm, int r, int group);

// A row's non-zeros, in the order of the state; nothing in row -1.
std::vector<Placed> placed(const Layout& layout, const SparseMatrix& matrix, std::int32_t row);
// Those that stand in a group's row, as Layout::rows counts these: of one that is cut, without its pieces, or a piece.
std::vector<Placed> placed_in(const Layout& layout, const SparseMatrix& matrix, std::size_t group_row);

// Gives a layout whose rows are dealt, and cut, its slots: how many each warp's rows have, and what stands in them.
// Works on so many threads. Throws InputError if a row does not fit.
void pack_rows(Layout& layout, const SparseMatrix& matrix, const CommonRows& common, int threads);

}  // namespace onchip
