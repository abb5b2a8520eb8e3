// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/layout/row_elements.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace onchip {

int set_of(const SparseLayout& layout, const SparseMatrix& matrix, const BankRule& rule, std::int64_t element) {
  return rule.set_of(layout.order[matrix.column[element]]);
}

namespace {

// Of a row's non-zeros some that stand together, from the begin-th to the end-th: about as many from each set of banks.
std::vector<std::int64_t> stretch_of(const SparseLayout& layout, const SparseMatrix& matrix, const BankRule& rule,
                                     std::vector<std::int64_t> all, std::int64_t begin, std::int64_t end) {
  if (layout.geometry.order != RowOrder::natural) {
    std::array<std::vector<std::int64_t>, kMaxBankSets> of_set;
    for (const std::int64_t e : all) {
      of_set[set_of(layout, matrix, rule, e)].push_back(e);
    }
    all.clear();
    for (std::size_t k = 0; std::ssize(all) < end; ++k) {
      for (const std::vector<std::int64_t>& elements : of_set) {
        if (k < elements.size()) {
          all.push_back(elements[k]);
        }
      }
    }
  }
  return {all.begin() + begin, all.begin() + end};
}

}  // namespace

std::vector<std::int64_t> elements_in(const SparseLayout& layout, const SparseMatrix& matrix, const BankRule& rule,
                                      std::size_t group_row) {
  const SparseGeometry& geometry = layout.geometry;
  const std::int32_t row = layout.rows[group_row];
  if (row < 0) {
    return {};
  }
  std::vector<std::int64_t> all(static_cast<std::size_t>(matrix.row_begin[row + 1] - matrix.row_begin[row]));
  std::iota(all.begin(), all.end(), matrix.row_begin[row]);
  const std::int64_t begin = geometry.row_splits == 0 ? 0 : layout.begins[group_row];
  const std::int64_t end = geometry.row_splits == 0 ? std::ssize(all) : layout.ends[group_row];
  if (end - begin == std::ssize(all)) {
    return all;
  }
  return stretch_of(layout, matrix, rule, std::move(all), begin, end);
}

std::vector<Placed> placed(const SparseLayout& layout, const SparseMatrix& matrix, std::int32_t row) {
  std::vector<Placed> elements;
  for (std::int64_t e = row < 0 ? 0 : matrix.row_begin[row]; row >= 0 && e < matrix.row_begin[row + 1]; ++e) {
    elements.push_back({layout.order[matrix.column[e]], e});
  }
  std::sort(elements.begin(), elements.end(), [](const Placed& a, const Placed& b) { return a.place < b.place; });
  return elements;
}

std::vector<Placed> placed_in(const SparseLayout& layout, const SparseMatrix& matrix, std::size_t group_row) {
  const std::int32_t row = layout.rows[group_row];
  std::vector<Placed> elements = placed(layout, matrix, row);
  if (layout.geometry.row_splits > 0 && row >= 0) {
    elements.resize(static_cast<std::size_t>(layout.ends[group_row]));
    elements.erase(elements.begin(), elements.begin() + layout.begins[group_row]);
  }
  return elements;
}

}  // namespace onchip
