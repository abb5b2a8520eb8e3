// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/equal_rows.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace onchip {
namespace {

std::uint64_t hash_of(std::span<const std::int32_t> columns) {
  std::uint64_t hash = columns.size();
  for (const std::int32_t column : columns) {
    hash = std::rotl((hash ^ static_cast<std::uint32_t>(column)) * 0x9e3779b97f4a7c15, 29);
  }
  return hash * 0xbf58476d1ce4e5b9;
}

}  // namespace

RowGroups equal_rows(const SparseMatrix& matrix) {
  const auto rows = static_cast<std::size_t>(matrix.rows);
  // Open addressing: the first row of each group, and its number.
  std::size_t slots = std::bit_ceil(2 * rows + 1);
  std::vector<std::int32_t> group_at(slots, -1), first_row, group_of(rows), size;
  std::vector<std::uint64_t> hash;  // of each group
  for (int row = 0; row < matrix.rows; ++row) {
    const std::span<const std::int32_t> columns = columns_of(matrix, row);
    const std::uint64_t key = hash_of(columns);
    std::size_t slot = key >> 32 & (slots - 1);
    std::int32_t group;
    while ((group = group_at[slot]) >= 0 &&
           (hash[group] != key || !std::ranges::equal(columns, columns_of(matrix, first_row[group])))) {
      slot = (slot + 1) & (slots - 1);
    }
    if (group < 0) {
      group = group_at[slot] = static_cast<std::int32_t>(first_row.size());
      first_row.push_back(row);
      hash.push_back(key);
      size.push_back(0);
    }
    group_of[row] = group;
    ++size[group];
  }
  RowGroups groups{std::vector<std::int32_t>(rows), {0}};
  groups.begin.resize(size.size() + 1);
  std::partial_sum(size.begin(), size.end(), groups.begin.begin() + 1);
  std::vector<std::int32_t> next(groups.begin.begin(), groups.begin.end() - 1);
  for (int row = 0; row < matrix.rows; ++row) {
    groups.rows[next[group_of[row]]++] = row;
  }
  return groups;
}

}  // namespace onchip
