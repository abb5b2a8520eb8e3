// SPDX-License-Identifier: Apache-2.0
#include "model/workload/files/tensor.hpp"

#include "model/base/error.hpp"
#include "model/base/joined.hpp"
#include "model/base/numeric.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace onchip {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor data are read as they lie in the file");

template <typename T>
T load(const char* data) {
  T value;
  std::memcpy(&value, data, sizeof value);  // tensors need not be aligned
  return value;
}

float read_f16(const char* data) {
  return from_bits(Precision::fp16, load<std::uint16_t>(data));
}
float read_bf16(const char* data) {
  return from_bits(Precision::bf16, load<std::uint16_t>(data));
}
float read_f32(const char* data) {
  return load<float>(data);
}
float read_f64(const char* data) {
  return static_cast<float>(load<double>(data));
}

float read_bool(const char* data) {
  return *data != 0 ? 1.0F : 0.0F;
}
float read_i8(const char* data) {
  return static_cast<float>(load<std::int8_t>(data));
}
float read_e4m3(const char* data) {
  return from_e4m3(load<std::uint8_t>(data));
}

constexpr std::array<DataType, 15> kDataTypes{{
    {"F16", 2, read_f16},
    {"BF16", 2, read_bf16},
    {"F32", 4, read_f32},
    {"F64", 8, read_f64},
    {"BOOL", 1, read_bool},
    {"U8", 1, nullptr},
    {"I8", 1, read_i8},
    {"F8_E5M2", 1, nullptr},
    {"F8_E4M3", 1, read_e4m3},
    {"U16", 2, nullptr},
    {"I16", 2, nullptr},
    {"U32", 4, nullptr},
    {"I32", 4, nullptr},
    {"U64", 8, nullptr},
    {"I64", 8, nullptr},
}};
constexpr std::string_view kReadable = "F16, BF16, F32, F64, BOOL, I8 and F8_E4M3";

const DataType& readable_type(const Tensor& tensor, const std::string& who) {
  const DataType* type = find_type(tensor.type);
  if (!type || !type->read) {
    throw InputError(who + " has dtype " + in_quotes(tensor.type) + "; expected one of " + std::string(kReadable));
  }
  return *type;
}

[[noreturn]] void refuse_value(const DataType& type, const char* element, const std::string& who,
                               const std::string& place) {
  const bool f64 = type.read == &read_f64 && std::isfinite(load<double>(element));
  throw InputError(who + " holds " +
                   (std::isnan(type.read(element)) ? "NaN"
                    : f64                          ? "a value beyond fp32"
                                                   : "an infinity") +
                   " at [" + place + "]");
}

}  // namespace

const DataType* find_type(std::string_view name) {
  const auto found =
      std::find_if(kDataTypes.begin(), kDataTypes.end(), [&](const DataType& type) { return type.name == name; });
  return found == kDataTypes.end() ? nullptr : &*found;
}

std::string shape_text(const Tensor& tensor) {
  const auto shown = std::span(tensor.shape).first(std::min<std::uint64_t>(tensor.dimensions, 2));
  return "[" + joined(shown, ", ", "", [](std::uint64_t extent) { return std::to_string(extent); }) +
         (tensor.dimensions > 2 ? ", ...]" : "]");
}

void drop_single_direction(Tensor& tensor) {
  if (tensor.dimensions == 3 && tensor.shape[0] == 1) {
    tensor.dimensions = 2;
    tensor.shape = {tensor.shape[1], tensor.shape[2]};
  }
}

SparseMatrix decode(const Tensor& tensor, std::string_view data, const std::string& who, std::span<const float> scales,
                    std::span<const float> mask) {
  if (tensor.dimensions != 2) {
    throw InputError(who + " has shape " + shape_text(tensor) + "; expected two dimensions");
  }
  const DataType* const type = &readable_type(tensor, who);
  for (const std::uint64_t size : {tensor.shape[0], tensor.shape[1]}) {
    if (size < 1 || size > kMaxDimension) {
      throw InputError(who + " has shape " + shape_text(tensor) + "; expected 1 to " + std::to_string(kMaxDimension) +
                       " rows and columns");
    }
  }
  SparseMatrix matrix{static_cast<int>(tensor.shape[0]), static_cast<int>(tensor.shape[1]), {}, {}, {}};
  const auto value_at = [&](std::uint64_t element) {
    const float scale = scales.empty() ? 1.0F : scales[scales.size() == 1 ? 0 : element / tensor.shape[1]];
    const float value = type->read(data.data() + element * type->bytes) * scale;
    return mask.empty() || mask[element] != 0 ? value : 0.0F;
  };
  std::uint64_t nnz = 0;
  for (std::uint64_t i = 0; i < tensor.elements; ++i) {
    const float value = value_at(i);
    if (!std::isfinite(value)) {
      refuse_value(*type, data.data() + i * type->bytes, who,
                   std::to_string(i / tensor.shape[1]) + ", " + std::to_string(i % tensor.shape[1]));
    }
    nnz += value != 0;
  }
  matrix.row_begin.reserve(tensor.shape[0] + 1);
  matrix.row_begin.push_back(0);
  matrix.column.reserve(nnz);
  matrix.value.reserve(nnz);
  std::uint64_t element = 0;
  for (int row = 0; row < matrix.rows; ++row) {
    for (int column = 0; column < matrix.columns; ++column) {
      const float value = value_at(element++);
      if (value != 0) {
        matrix.column.push_back(column);
        matrix.value.push_back(value);
      }
    }
    matrix.row_begin.push_back(matrix.nnz());
  }
  return matrix;
}

std::vector<float> decode_values(const Tensor& tensor, const std::string& who) {
  const DataType& type = readable_type(tensor, who);
  const std::string data = tensor.data();
  std::vector<float> values(tensor.elements);
  for (std::uint64_t i = 0; i < tensor.elements; ++i) {
    values[i] = type.read(data.data() + i * type.bytes);
    if (!std::isfinite(values[i])) {
      refuse_value(type, data.data() + i * type.bytes, who, std::to_string(i));
    }
  }
  return values;
}

}  // namespace onchip
