// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/exact_rows.hpp"

#include "model/base/numeric.hpp"

#include <algorithm>

namespace onchip {
namespace {

constexpr int kSlice = 32, kAtOnce = 4;  // rows, and weights of a row, of the exact ones

}  // namespace

BlocksLayout::Exact exact_rows(const SparseLayer& layer) {
  BlocksLayout::Exact exact;
  const SparseMatrix& weights = layer.weights;
  for (int first = 0; first < weights.rows; first += kSlice) {
    const int rows = std::min(kSlice, weights.rows - first);
    std::int64_t longest = 0;
    for (int r = 0; r < rows; ++r) {
      longest = std::max(longest, weights.row_begin[first + r + 1] - weights.row_begin[first + r]);
    }
    const std::size_t begin = exact.weight.size(), fours = (longest + kAtOnce - 1) / kAtOnce;
    exact.weight.resize(begin + fours * kSlice * kAtOnce, BlocksLayout::kNoWeight);
    for (int r = 0; r < kSlice; ++r) {
      exact.bias.push_back(r < rows ? layer.bias_of(first + r) : 0);
      for (std::int64_t k = 0; r < rows && k < weights.row_begin[first + r + 1] - weights.row_begin[first + r]; ++k) {
        const std::int64_t i = weights.row_begin[first + r] + k;
        exact.weight[begin + ((k / kAtOnce) * kSlice + r) * kAtOnce + k % kAtOnce] =
            static_cast<std::uint32_t>(weights.column[i]) | to_bits(Precision::fp16, weights.value[i]) << 16;
      }
    }
    exact.slice_begin.push_back(static_cast<std::uint32_t>(exact.weight.size() / (kSlice * kAtOnce)));
  }
  exact.rows.push_back(static_cast<std::uint32_t>(weights.rows));
  return exact;
}

void append(BlocksLayout::Exact& all, const BlocksLayout::Exact& layer) {
  const auto before = static_cast<std::uint32_t>(all.weight.size() / (kSlice * kAtOnce));
  all.weight.insert(all.weight.end(), layer.weight.begin(), layer.weight.end());
  all.bias.insert(all.bias.end(), layer.bias.begin(), layer.bias.end());
  for (const std::uint32_t end : layer.slice_begin) {
    all.slice_begin.push_back(before + end);
  }
  all.layer_slice.push_back(static_cast<std::uint32_t>(all.slice_begin.size() - 1));
  all.rows.push_back(layer.rows.front());
}

}  // namespace onchip
