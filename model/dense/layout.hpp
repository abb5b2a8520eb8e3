// SPDX-License-Identifier: Apache-2.0
// Which weight sits in which fragment of which lane (model/dense/fragments.hpp). Units stand in their own order. What
// bitmap storage leaves out is left out when it is encoded.
#pragma once

#include "model/dense/geometry.hpp"
#include "model/plan/encoded.hpp"
#include "model/workload/mask.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

struct DenseLayout {
  explicit DenseLayout(const DenseGeometry& of) : geometry(of) {}

  DenseGeometry geometry;
  std::vector<std::int32_t> order;      // [hidden]: place of each unit in the state: its own
  std::vector<float> value;             // [sms, warps, warp_tiles, 32 lanes, 8]
  std::vector<std::uint32_t> metadata;  // structured_2_4: [sms, warps, metadata_words, 32 lanes]
};

// Throws InputError, structured_2_4: if the matrix is not 2:4; bitmap: if a bank has no room for the words of its
// tiles.
DenseLayout make_layout(const DenseGeometry& geometry, const SparseMatrix& matrix, int threads = 1);

// The matrix back; equal to what make_layout was given, without its zeros.
SparseMatrix unpack(const DenseLayout& layout);

Encoded encode(const DenseLayout& layout);

// Of each row of W, where its result is: unit * gates + gate.
std::vector<std::int32_t> row_places(const DenseLayout& layout);

// Of the weights in shared memory; of bitmap storage a load of words that no lane has takes none.
Wavefronts gather_wavefronts(const DenseLayout& layout);

}  // namespace onchip
