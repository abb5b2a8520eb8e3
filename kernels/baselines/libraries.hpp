// SPDX-License-Identifier: Apache-2.0
// The libraries that are baselines of recurrent networks, each loaded at run time: $ONCHIP_CUDNN, $ONCHIP_CUBLAS and
// $ONCHIP_CUSPARSE (the library's path), else the dynamic linker's search.
#pragma once

#include "kernels/baselines/baseline.hpp"
#include "kernels/baselines/feed_forward.hpp"

namespace onchip {

// cuDNN's recurrent networks: dense, one layer, inference, linear input (its GEMM is part of the time), random weights,
// initial state zero, all sequences of full length. Its GRU resets after the product.
//
// The settings are those that cuDNN is fastest with and does not refuse: two biases (the persistent algorithms refuse
// any other number), fp32 sums, tensor cores for fp16 and bf16, plain fp32 arithmetic (no TF32) for fp32.
// Networks with fp8 weights run in fp16.
//
// Every algorithm with the network's batch and with the batch padded to a multiple of 8, which takes other kernels, and
// with its hidden size as it is and padded to multiples of 8 and of 64. The standard algorithm, which launches kernels
// in every step, also as a graph.
std::vector<BaselineCandidate> cudnn_candidates(const Recurrent& network);

// cuBLAS: one dense product of the network's size per time step (see product.hpp), random weights, as
// kernels/runtime/cublas.hpp multiplies. The weights row-major (TN) and column-major (NN), the batch as it is and, for
// 16-bit types, padded to a multiple of 8, which takes other kernels, the hidden size likewise, to 16 bytes; each step
// by step and as a graph.
std::vector<BaselineCandidate> cublas_candidates(const Recurrent& network);

// cuSPARSE: one product with the network's own sparse matrix per time step (see product.hpp), compressed sparse rows
// with 32-bit indices, sums in fp32, preprocessed where the algorithm has that. SpMM with each algorithm for this
// format and the states column- and row-major; with a batch of one SpMV, too. Each step by step and as a graph.
std::vector<BaselineCandidate> cusparse_candidates(const Recurrent& network);

// SpMM with a feed-forward network's layers in fp32, for up to so many images, by CSR_ALG1, 2 or 3. Throws
// BaselineRefusal with the library's words.
std::unique_ptr<LayerProduct> make_sparse_layers(const FeedForward& network, int images, int algorithm, bool by_neuron);

}  // namespace onchip
