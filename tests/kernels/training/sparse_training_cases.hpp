// SPDX-License-Identifier: Apache-2.0
// Masks of LSTMs that are trained sparse.
#pragma once

#include "kernels/training/sparse_program.hpp"
#include "tests/kernels/training/training_cases.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

// Sets weights of W_hh to zero at random, those of some rows and columns more often, and scales the rest up; returns
// what is left.
inline SparseMatrix prune(const TrainingSize& size, double density, std::uint64_t seed, std::vector<double>& w_hh) {
  Random random(seed, 9);
  SparseMatrix mask{.rows = 4 * size.hidden, .columns = size.hidden, .row_begin = {0}, .column = {}, .value = {}};
  for (int row = 0; row < mask.rows; ++row) {
    const double of_row = density * (row % 7 == 0 ? 0.5 : 1.0);
    for (int column = 0; column < mask.columns; ++column) {
      double& weight = w_hh[static_cast<std::size_t>(row) * static_cast<std::size_t>(mask.columns) +
                            static_cast<std::size_t>(column)];
      if (random.unit() < of_row * (column % 5 == 0 ? 0.5 : 1.0)) {
        weight *= 2;
        mask.column.push_back(column);
        mask.value.push_back(static_cast<float>(weight));
      } else {
        weight = 0;
      }
    }
    mask.row_begin.push_back(mask.nnz());
  }
  return mask;
}

}  // namespace onchip
