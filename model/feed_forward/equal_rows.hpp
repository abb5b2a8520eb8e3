// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix with the same columns, whatever their values.
#pragma once

#include "model/workload/mask.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

// Each row in one group; groups in the order of their first rows, rows ascend within a group.
struct RowGroups {
  std::vector<std::int32_t> rows;   // [rows of the matrix]
  std::vector<std::int32_t> begin;  // [groups + 1]

  int count() const { return static_cast<int>(begin.size()) - 1; }
  std::span<const std::int32_t> of(int group) const {
    return std::span(rows).subspan(begin[group], begin[group + 1] - begin[group]);
  }
};

inline std::span<const std::int32_t> columns_of(const SparseMatrix& matrix, int row) {
  return std::span(matrix.column).subspan(matrix.row_begin[row], matrix.row_begin[row + 1] - matrix.row_begin[row]);
}

// Found by a hash of the columns; rows of one hash are compared.
RowGroups equal_rows(const SparseMatrix& matrix);

}  // namespace onchip
