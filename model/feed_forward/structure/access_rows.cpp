// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/access_rows.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace onchip {

std::vector<std::int32_t> order_by_access(std::span<const std::span<const std::int32_t>> places, int classes,
                                          int candidates) {
  const std::size_t rows = places.size(), width = static_cast<std::size_t>(classes);
  std::vector<float> entries(rows * width);  // of a row, of each class
  for (std::size_t r = 0; r < rows; ++r) {
    for (const std::int32_t place : places[r]) {
      ++entries[r * width + place % classes];
    }
  }
  const auto length = [&](std::int32_t row) { return places[row].size(); };
  std::vector<std::int32_t> by_length(rows);
  std::iota(by_length.begin(), by_length.end(), 0);
  std::ranges::stable_sort(by_length, std::ranges::greater{}, length);

  std::vector<std::int32_t> order, left;  // left: those looked at, longest first
  std::vector<float> sum(width);
  std::vector<bool> is_written(width);  // by rows of the access: a row's output has its number as its place
  auto next = by_length.begin();
  const auto take = [&](std::size_t i) {
    const std::int32_t row = left[i];
    for (std::size_t c = 0; c < width; ++c) {
      sum[c] += entries[row * width + c];
    }
    is_written[row % width] = true;
    order.push_back(row);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
  };
  while (order.size() < rows) {
    const std::size_t in_access = order.size() % width;
    while (next != by_length.end() && left.size() < std::max(width, static_cast<std::size_t>(candidates))) {
      left.push_back(*next++);
    }
    if (in_access == 0) {
      std::ranges::fill(sum, 0.0F);
      std::fill(is_written.begin(), is_written.end(), false);
      take(0);
      continue;
    }
    const std::size_t shortest = length(left[std::min(left.size(), width - in_access) - 1]);
    std::size_t best = 0;
    std::pair<bool, float> best_cost;
    for (std::size_t i = 0; i < left.size() && length(left[i]) >= shortest; ++i) {
      std::pair<bool, float> cost{is_written[left[i] % width], 0};
      const float* const of_row = entries.data() + left[i] * width;
      for (std::size_t c = 0; c < width; ++c) {
        const float square = (sum[c] + of_row[c]) * (sum[c] + of_row[c]);
        cost.second += square * square;
      }
      if (i == 0 || cost < best_cost) {
        best = i;
        best_cost = cost;
      }
    }
    take(best);
  }
  return order;
}

}  // namespace onchip
