// SPDX-License-Identifier: Apache-2.0
// Dense blocks of a layer: rows that read the same inputs, or nearly, whatever their values. Tensor cores multiply
// them.
//   1. rows with equal columns are cut into blocks of 16
//   2. what is left is joined by similarity: candidates agree in at least 2 of 8 min-hashes of their columns (Broder,
//      On the resemblance and containment of documents, 1997), and share with the first row's columns at least
//      least_fill of the longer list
//   3. a block's columns are cut into groups of 16, the most used ones first, while a group is filled at least_fill
//   4. blocks are put in an order in which neighbours share inputs, greedily
//   5. rows of no block take the places of rows that blocks lack, whatever their columns
//   6. all else is the remainder
#pragma once

#include "model/workload/mask.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

inline constexpr int kBlockRows = 16;     // M of mma.m16n8k16
inline constexpr int kBlockColumns = 16;  // K
inline constexpr std::int32_t kNoNeuron = -1;

struct Blocks {
  std::vector<std::int32_t> row;              // [count(), kBlockRows]: outputs; kNoNeuron: none
  std::vector<std::int64_t> column_begin{0};  // [count() + 1], multiples of kBlockColumns
  std::vector<std::int32_t> column;           // inputs; kNoNeuron: none

  int count() const { return static_cast<int>(column_begin.size()) - 1; }
  std::span<std::int32_t> rows(int b) { return std::span(row).subspan(std::size_t{kBlockRows} * b, kBlockRows); }
  std::span<const std::int32_t> rows(int b) const {
    return std::span(row).subspan(std::size_t{kBlockRows} * b, kBlockRows);
  }
  std::span<std::int32_t> columns(int b) {
    return std::span(column).subspan(column_begin[b], column_begin[b + 1] - column_begin[b]);
  }
  std::span<const std::int32_t> columns(int b) const {
    return std::span(column).subspan(column_begin[b], column_begin[b + 1] - column_begin[b]);
  }
  std::int64_t elements() const { return kBlockRows * static_cast<std::int64_t>(column.size()); }
};

struct LayerStructure {
  Blocks blocks;
  SparseMatrix remainder;  // the weights that no block has; each row is in at most one block
  std::int64_t weights_in_blocks = 0;
};

// least_fill: what a block's weights are of its elements, at least.
LayerStructure find_blocks(const SparseMatrix& weights, double least_fill = 0.5);

// The pattern of which blocks read each input, [inputs, blocks].
SparseMatrix readers_of(const Blocks& blocks, int inputs);

// The weights of a block, [kBlockRows, columns]: zero where the layer has none.
std::vector<float> block_values(const SparseMatrix& weights, const Blocks& blocks, int b);

}  // namespace onchip
