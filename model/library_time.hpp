// SPDX-License-Identifier: Apache-2.0
// How long a step takes with a library, which reads all weights from L2 or DRAM in every step: what a network that does
// not fit on the chip is computed with, and what a kernel has to beat.
//
//   cublas_graph    product + weights / bandwidth                       a dense product per step in one CUDA graph
//   cusparse_graph  product + (value + 4 bytes per non-zero) / bandwidth + sectors / L2     a sparse one
//   cudnn           the faster of
//     standard      product + node + weights / bandwidth + the input's product, all steps' together
//     persistent    two grid barriers + weights / L2, where cuDNN takes the network
//
//   bandwidth       of L2 for what fits in it, else of DRAM: whoever reads in a circle finds nothing of the last round
//   weights         also at least as long as one SM needs to copy 64 rows, which a block has
//   sectors         32-byte sectors of the state, all samples of a unit, one for each non-zero
//
// cuBLAS and cuSPARSE do products only: input, bias and activation come on top. Constants are the chip's; those of
// [library] come from measured steps of these libraries. Of 33 steps on an H200 (tests/model/library_time_test.cpp) it
// is off by 9 % on average, at worst by 31 % (cuSPARSE), of cuDNN's networks of few units and more than 8 samples by up
// to 55 %: enough to tell a library from a persistent kernel, not to rank libraries that are close.
#pragma once

#include "model/chip.hpp"
#include "model/step_time.hpp"

namespace onchip {

// Expects a plan of a library. It fits wherever it runs, for it keeps nothing on the SMs.
Prediction predict_library(const Chip& chip, const Network& network, const Plan& plan);
Footprint library_footprint(const Chip& chip, const Network& network, const Plan& plan);

}  // namespace onchip
