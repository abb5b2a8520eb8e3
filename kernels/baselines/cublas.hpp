// SPDX-License-Identifier: Apache-2.0
// cuBLAS as an baseline: one dense product of the network's size per time step (see product.hpp), random weights,
// as kernels/runtime/cublas.hpp multiplies.
#pragma once

#include "kernels/baselines/baseline.hpp"

namespace onchip {

// The weights row-major (TN) and column-major (NN), the batch as it is and, for 16-bit types, padded to a multiple of
// 8, which takes other kernels, the hidden size likewise, to 16 bytes; each step by step and as a graph.
std::vector<BaselineCandidate> cublas_candidates(const Recurrent& network);

}  // namespace onchip
