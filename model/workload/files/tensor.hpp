// SPDX-License-Identifier: Apache-2.0
// A tensor as it lies in a file, little-endian and row-major, and its values as weights: what the readers of
// safetensors and NumPy files have in common.
#pragma once

#include "model/base/input_file.hpp"
#include "model/workload/mask.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// Every data type of safetensors, so that the extent of each tensor can be checked; those with a reader can be weights.
using Reader = float (*)(const char*);
struct DataType {
  std::string_view name;
  std::uint64_t bytes;
  Reader read;
};
const DataType* find_type(std::string_view name);

struct Tensor {
  std::string type;  // "F16"
  std::uint64_t dimensions = 0;
  std::array<std::uint64_t, 3> shape{};  // the first dimensions
  std::uint64_t elements = 1;
  bool too_many_elements = false;    // the product of all dimensions overflows
  std::uint64_t begin = 0, end = 0;  // of its bytes in the file
  const InputFile* file = nullptr;

  std::string data() const { return file->read(begin, end - begin); }
};
std::string shape_text(const Tensor& tensor);  // "[2, 3]"
// [1, rows, columns], as ONNX has the weights of one direction, becomes [rows, columns].
void drop_single_direction(Tensor& tensor);

// Weights of a quantised checkpoint are times a scale, of all or of each row; of a pruned one those count whose mask is
// not zero. Either may be empty. Throws InputError, with `who` the tensor is, for what cannot be weights.
SparseMatrix decode(const Tensor& tensor, std::string_view data, const std::string& who,
                    std::span<const float> scales = {}, std::span<const float> mask = {});
std::vector<float> decode_values(const Tensor& tensor, const std::string& who);

}  // namespace onchip
