// SPDX-License-Identifier: Apache-2.0
// cuDNN's recurrent networks as an baseline: dense, one layer, inference, linear input (its GEMM is part of the time),
// random weights, initial state zero, all sequences of full length. Its GRU resets after the product.
//
// The settings are those that cuDNN is fastest with and does not refuse: two biases (the persistent algorithms refuse
// any other number), fp32 sums, tensor cores for fp16 and bf16, plain fp32 arithmetic (no TF32) for fp32.
// Networks with fp8 weights run in fp16.
//
// cuDNN is loaded at run time: $ONCHIP_CUDNN (the library's path), else the dynamic linker's search.
#pragma once

#include "kernels/baselines/baseline.hpp"

namespace onchip {

// Every algorithm with the network's batch and with the batch padded to a multiple of 8, which takes other kernels, and
// with its hidden size as it is and padded to multiples of 8 and of 64. The standard algorithm, which launches kernels
// in every step, also as a graph.
std::vector<BaselineCandidate> cudnn_candidates(const Recurrent& network);

}  // namespace onchip
