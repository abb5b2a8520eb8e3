// SPDX-License-Identifier: Apache-2.0
// cuSPARSE as an baseline: one product with the network's own sparse matrix per time step (see product.hpp), compressed
// sparse rows with 32-bit indices, sums in fp32, preprocessed where the algorithm has that.
//
// cuSPARSE is loaded at run time: $ONCHIP_CUSPARSE (the library's path), else the dynamic linker's search.
#pragma once

#include "kernels/baselines/baseline.hpp"
#include "kernels/baselines/feed_forward.hpp"

namespace onchip {

// SpMM with each algorithm for this format and the states column- and row-major; with a batch of one SpMV, too. Each
// step by step and as a graph.
std::vector<BaselineCandidate> cusparse_candidates(const Recurrent& network);

// SpMM with a feed-forward network's layers in fp32, for up to so many images, by CSR_ALG1, 2 or 3. Throws
// BaselineRefusal with the library's words.
std::unique_ptr<LayerProduct> make_sparse_layers(const FeedForward& network, int images, int algorithm, bool by_neuron);

}  // namespace onchip
