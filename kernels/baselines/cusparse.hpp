// SPDX-License-Identifier: Apache-2.0
// cuSPARSE as an baseline: one product with the network's own sparse matrix per time step (see product.hpp), compressed
// sparse rows with 32-bit indices, sums in fp32, preprocessed where the algorithm has that.
//
// cuSPARSE is loaded at run time: $ONCHIP_CUSPARSE (the library's path), else the dynamic linker's search.
#pragma once

#include "kernels/baselines/baseline.hpp"

namespace onchip {

// SpMM with each algorithm for this format and the states column- and row-major; with a batch of one SpMV, too. Each
// step by step and as a graph.
std::vector<BaselineCandidate> cusparse_candidates(const Recurrent& network);

}  // namespace onchip
