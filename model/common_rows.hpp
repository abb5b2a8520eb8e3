// SPDX-License-Identifier: Apache-2.0
// Which non-zeros of a matrix stand in the slots that two rows of a unit share (model/common_columns.hpp): as many as
// share_columns() says, and of the columns that may be taken those that let the loads of a warp reach all banks alike.
#pragma once

#include "model/layout.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

// One column of the state, and the non-zeros of a pair's first and second row in it, or of one of them: -1 for none.
// Elsewhere than in pairs only `first` is used.
struct Element {
  std::int64_t first = -1, second = -1;

  std::int64_t any() const { return first >= 0 ? first : second; }
};

struct CommonRows {
  std::vector<std::vector<std::int64_t>> own;  // [rows of W]: non-zeros that the row keeps, by column
  std::vector<std::vector<Element>> of_pairs;  // [sms, common_rows, groups]
  const Plan* plan = nullptr;

  // Where `of_pairs` has the columns of a group's pair.
  std::size_t pair(int sm, int common_row, int group) const {
    return (static_cast<std::size_t>(sm) * plan->common_rows + common_row) * plan->groups() + group;
  }
};

// Of a layout whose rows are dealt. Works on so many threads; the result does not depend on how many.
CommonRows share_rows(const Layout& layout, const SparseMatrix& matrix, int threads);

}  // namespace onchip
