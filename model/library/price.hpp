// SPDX-License-Identifier: Apache-2.0
// How long a step takes with a library, which reads all weights from L2 or DRAM in every step: what a network that does
// not fit on the chip is computed with, and what a kernel has to beat.
//
//   cublas_graph    product + weights / bandwidth                       a dense product per step in one CUDA graph
//   cusparse_graph  product + (value + 4 bytes per non-zero) / bandwidth + sectors / L2     a sparse one
//   cudnn           the fastest of its algorithms
//     standard      product + node + weights / bandwidth + rows of all samples / L2 + all steps' product of the input
//     persistent    grid barriers of every group of samples + weights / L2; in fp16 and fp32
//     small         weights in the registers of one SM; in fp16 and fp32
//
//   bandwidth       of L2 for what stays in it, else of DRAM: whoever reads in a circle finds nothing of the last round
//   weights         also at least as long as one SM needs to copy 64 rows, which a block has; fp32: to multiply them
//   hidden size     dense libraries: padded to 16 bytes, without which they take up to five times as long
//   sectors         32-byte sectors of the state, all samples of a unit, one for each non-zero
//   a sparse product also at least as long as the non-zeros of a row need one after another
//
// cuBLAS and cuSPARSE do products only: input, bias and activation come on top. Constants are the chip's, those of
// [library] among them, and cost terms; both come from measured steps of these libraries. `onchip validate` says how
// far off they are for each file: 5 to 12 % on average; half of the steps of libraries.csv are in fp32.
#pragma once

#include "model/library/plan.hpp"
#include "model/plan/prediction.hpp"
#include "model/workload/recurrent.hpp"

#include <optional>

namespace onchip {

template <Library kLibrary>
struct LibraryGeometry {
  Recurrent network;
};
template <Library kLibrary>
LibraryGeometry<kLibrary> geometry(const Recurrent& network, const LibraryPlan<kLibrary>&) {
  return {network};
}

// A library fits wherever it runs, for it keeps nothing on the SMs.
Footprint footprint(const Chip& chip, const LibraryGeometry<Library::cublas_graph>& geometry);
Footprint footprint(const Chip& chip, const LibraryGeometry<Library::cudnn>& geometry);
Footprint footprint(const Chip& chip, const LibraryGeometry<Library::cusparse_graph>& geometry);

Price price(const Chip& chip, const LibraryGeometry<Library::cublas_graph>& geometry);
Price price(const Chip& chip, const LibraryGeometry<Library::cudnn>& geometry);
Price price(const Chip& chip, const LibraryGeometry<Library::cusparse_graph>& geometry);

// Seconds that a library needs to read weights of so many bytes in every step: from L2 where they stay there, else from
// DRAM.
double weights_seconds(const Chip& chip, double bytes);

// Seconds of a step of inference by cuDNN's kernel of one SM, for the networks that it takes.
std::optional<double> cudnn_small_seconds(const Chip& chip, const Recurrent& network);

// A product of so many weights with so many samples by all SMs, on tensor cores or, in fp32, without them.
double multiplying_seconds(const Chip& chip, Precision precision, double weights, double batch);

// C = A B by cuBLAS, A: [rows, depth], B: [depth, columns], each read or written once, as fast as the tensor cores'
// instruction is by itself.
struct ProductSize {
  std::int64_t rows = 0, columns = 0, depth = 0;
  Precision precision = Precision::fp16;
  friend bool operator==(const ProductSize&, const ProductSize&) = default;
};
Price product_price(const Chip& chip, const ProductSize& size);

// The dense product of the input of all steps and samples, of `columns` elements each, with the network's W_ih.
Price input_product_price(const Chip& chip, const Recurrent& network, int columns);

}  // namespace onchip
