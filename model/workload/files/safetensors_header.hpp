// SPDX-License-Identifier: Apache-2.0
// A safetensors file's tensors, from its header.
#pragma once

#include "model/workload/files/tensor.hpp"
#include "model/workload/files/weights_file.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace onchip::safetensors {

using Tensors = std::map<std::string, Tensor, std::less<>>;

// What torch.nn.utils.prune saves of a weight: its values and, beside them, which of them count.
inline constexpr std::string_view kOriginal = "_orig", kMask = "_mask";

// Whether TENSOR_scale beside it belongs to it.
inline bool is_quantised(const Tensor& tensor) {
  return tensor.type == "I8" || tensor.type == "F8_E4M3";
}

// The tensors of a file, which must outlive them. Throws InputError for a header or extents that are not valid.
Tensors read_tensors(const InputFile& input, const std::string& file);
// A matrix with its mask and scales.
SparseMatrix read_matrix(const Tensors& tensors, const std::string& file, const TensorChoice& choice);

}  // namespace onchip::safetensors
