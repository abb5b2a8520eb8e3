// SPDX-License-Identifier: Apache-2.0
// Files of the Sparse DNN Graph Challenge, and the binary form of its 2020 champion; numbers count from 1.
//   nN-lK.tsv                 layer K: lines of input TAB output TAB value
//   sparse-images-N.tsv       lines of image TAB pixel TAB value
//   neuronN.bin               each layer: int32 output[32 N], int32 input[32 N], float32 value[32 N]
//   sparse-images-N.bin       int32 pixel[nnz], int32 image[nnz], float32 value[nnz]
// Lines may end with CR LF and come in any order. Parsers throw InputError with file and line, or the entry of a binary
// file, for what is cut off, twice there, not a number, not finite or out of range; they take memory in proportion to
// the file. Zeros are dropped.
#pragma once

#include "model/base/input_file.hpp"
#include "model/feed_forward/inputs.hpp"
#include "model/workload/mask.hpp"

#include <cstdint>
#include <string_view>

namespace onchip {

inline constexpr int kMostImages = 1 << 24;  // of a file

SparseMatrix parse_layer_tsv(std::string_view text, std::string_view file_name, int outputs, int inputs);
// `images` 0: up to the last that has a pixel.
IndexLists parse_images_tsv(std::string_view text, std::string_view file_name, int neurons, int images = 0);

int layers_of_bin(std::uint64_t bytes, std::string_view file_name, int neurons);
SparseMatrix parse_layer_bin(const InputFile& input, std::string_view file_name, int neurons, int layer);
IndexLists parse_images_bin(std::string_view bytes, std::string_view file_name, int neurons, int images = 0);

}  // namespace onchip
