// SPDX-License-Identifier: Apache-2.0
// What of a row of W stands in a group's row of a layout.
#pragma once

#include "model/banks/bank_rule.hpp"
#include "model/sparse/layout/delta_order.hpp"
#include "model/sparse/layout/layout.hpp"
#include "model/workload/mask.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

// The set of banks that a non-zero's column is in. Non-zeros are told by their number in the matrix.
int set_of(const SparseLayout& layout, const SparseMatrix& matrix, const BankRule& rule, std::int64_t element);

// The non-zeros that stand in a group's row, as Layout::rows counts these. Of one cut into splits each has about as
// many from each set of banks, or it could not be without conflicts, for its slots are full.
std::vector<std::int64_t> elements_in(const SparseLayout& layout, const SparseMatrix& matrix, const BankRule& rule,
                                      std::size_t group_row);

// A row's non-zeros, in the order of the state; nothing in row -1.
std::vector<Placed> placed(const SparseLayout& layout, const SparseMatrix& matrix, std::int32_t row);
// Those that stand in a group's row: of one that is cut, without its splits, or a split.
std::vector<Placed> placed_in(const SparseLayout& layout, const SparseMatrix& matrix, std::size_t group_row);

}  // namespace onchip
