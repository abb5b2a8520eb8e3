// SPDX-License-Identifier: Apache-2.0
// Recurrent weights from users' files. Every reader throws InputError, with line and column where the file has lines;
// `parse_` takes the bytes, and `file_name` is for messages only. Zeros are dropped.
#pragma once

#include "model/workload/mask.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {

// Which tensor of a file that holds several, and how it lies.
struct TensorChoice {
  // Its name, or that of the module that has it; "": what can be recurrent weights, by its name or its shape.
  std::string_view tensor{};
  bool transpose = false;  // the file has [hidden, gates * hidden]
  int gates = 0;           // of the cell; 0: any cell's
};

// "n1024-l7" and ".tsv" of "n1024-l7.TSV.gz": without the extension of a compressor, the other in lower case.
std::pair<std::string, std::string> stem_and_extension(const std::filesystem::path& file);

// By extension, in upper or lower case: .mtx, .smtx, .npy and .safetensors, with .gz, .xz or .zst behind it where it is
// compressed, and .json, which is the index of a checkpoint of several .safetensors files.
SparseMatrix read_weights(const std::filesystem::path& file, const TensorChoice& choice = {});

// Matrix Market: real, integer or pattern; coordinates, general or symmetric, or an array. Duplicate entries are an
// error; pattern entries have the value 1. A value too small for fp32 is a zero, one too large an error.
SparseMatrix parse_matrix_market(std::string_view text, std::string_view file_name);

// A pattern of the Deep Learning Matrix Collection (.smtx); its values are 1.
SparseMatrix parse_smtx(std::string_view text, std::string_view file_name);

// A NumPy array of two dimensions: little-endian f2, f4 or f8, i1 or booleans.
SparseMatrix parse_npy(std::string_view bytes, std::string_view file_name);

// A 2-D tensor of a safetensors file, or 3-D with a first dimension of 1; of F16, BF16, F32 or F64, or a pruned or
// quantised one with its mask or scale; or of a checkpoint of several such files, by its index (.json).
SparseMatrix parse_safetensors(std::string_view bytes, std::string_view file_name, const TensorChoice& choice = {});
SparseMatrix read_safetensors(const std::filesystem::path& file, const TensorChoice& choice = {});

// The tensors among which a reader has no choice if there is one: each layer and direction of a checkpoint, layer 2
// before layer 10. Of a file of another kind its choice as it is.
std::vector<std::string> recurrent_tensors(const std::filesystem::path& file, const TensorChoice& choice);

// A 1-D tensor of a safetensors file, such as a bias, of the same types.
std::vector<float> read_safetensors_vector(const std::filesystem::path& file, std::string_view tensor);

}  // namespace onchip
