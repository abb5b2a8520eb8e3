// SPDX-License-Identifier: Apache-2.0
// Sparse matrices that tests make.
#pragma once

#include "model/workload/mask.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

// Of `matrix` the elements for which keep(row, element) is true.
SparseMatrix kept_elements(const SparseMatrix& matrix, auto&& keep) {
  SparseMatrix kept{matrix.rows, matrix.columns, {0}, {}, {}};
  for (int row = 0; row < matrix.rows; ++row) {
    for (std::int64_t e = matrix.row_begin[row]; e < matrix.row_begin[row + 1]; ++e) {
      if (keep(row, e)) {
        kept.column.push_back(matrix.column[e]);
        kept.value.push_back(matrix.value[e]);
      }
    }
    kept.row_begin.push_back(kept.nnz());
  }
  return kept;
}

inline SparseMatrix without_zeros(const SparseMatrix& matrix) {
  return kept_elements(matrix, [&](int, std::int64_t e) { return matrix.value[e] != 0; });
}

// [gates * units, units], rows of the given lengths.
inline SparseMatrix rows_of_lengths(int units, const std::vector<int>& lengths) {
  SparseMatrix matrix{static_cast<int>(lengths.size()), units, {0}, {}, {}};
  for (const int length : lengths) {
    for (int column = 0; column < length; ++column) {
      matrix.column.push_back(column);
      matrix.value.push_back(1);
    }
    matrix.row_begin.push_back(matrix.nnz());
  }
  return matrix;
}

}  // namespace onchip
