// SPDX-License-Identifier: Apache-2.0
// cuBLAS as an opponent: one dense product of the network's size per time step (see product.hpp), random weights,
// cublasGemmEx with its own choice of kernel, sums in fp32 (no TF32 for fp32 data).
//
// cuBLAS is loaded at run time: $ONCHIP_CUBLAS (the library's path), else the dynamic linker's search.
#pragma once

#include "kernels/opponents/opponent.hpp"

namespace onchip {

// The weights row-major (TN) and column-major (NN), the batch as it is and, for 16-bit types, padded to a multiple of
// 8, which takes other kernels; each step by step and as a graph.
std::vector<OpponentCandidate> cublas_candidates(const Network& network);

}  // namespace onchip
