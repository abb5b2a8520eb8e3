// SPDX-License-Identifier: Apache-2.0
// NumPy's files of one array (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html):
//   6 bytes   \x93NUMPY
//   2 bytes   version, 1.0 to 3.0
//   2 bytes   length N of the header, little-endian; 4 bytes from version 2 on
//   N bytes   {'descr': '<f4', 'fortran_order': False, 'shape': (256, 64), } and spaces
//   the rest  the values, by rows or, in Fortran's order, by columns
#include "model/base/error.hpp"
#include "model/workload/files/tensor.hpp"
#include "model/workload/files/weights_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

namespace onchip {
namespace {

struct NpyType {
  std::string_view descr, type;  // NumPy's name and safetensors'
};
constexpr std::array kTypes{NpyType{"<f2", "F16"}, NpyType{"<f4", "F32"}, NpyType{"<f8", "F64"}, NpyType{"|i1", "I8"},
                            NpyType{"|b1", "BOOL"}};

}  // namespace

SparseMatrix parse_npy(std::string_view bytes, std::string_view file_name) {
  const std::string file(file_name);
  constexpr std::string_view kMagic = "\x93NUMPY";
  const auto byte = [&](std::size_t i) -> std::size_t {
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0;
  };
  if (!bytes.starts_with(kMagic) || byte(6) < 1 || byte(6) > 3) {
    throw InputError(file + ": not a NumPy file of version 1 to 3");
  }
  const std::size_t begin = byte(6) == 1 ? 10 : 12;
  const std::size_t length = byte(8) | byte(9) << 8 | (byte(6) == 1 ? 0 : byte(10) << 16 | byte(11) << 24);
  if (bytes.size() < begin || bytes.size() - begin < length) {
    throw InputError(file + ": its header claims " + std::to_string(length) + " bytes; is the file truncated?");
  }
  const std::string_view header = bytes.substr(begin, length), data = bytes.substr(begin + length);

  // What stands behind 'key': in the header.
  const auto value_of = [&](std::string_view key) {
    const std::size_t found = header.find("'" + std::string(key) + "':");
    if (found == std::string_view::npos) {
      throw InputError(file + ": its header has no '" + std::string(key) + "'");
    }
    const std::string_view value = header.substr(found + key.size() + 3);
    return value.substr(std::min(value.find_first_not_of(' '), value.size()));
  };
  const std::string_view quoted = value_of("descr");
  const auto type = std::ranges::find_if(
      kTypes, [&](const NpyType& known) { return quoted.starts_with("'" + std::string(known.descr) + "'"); });
  if (type == kTypes.end()) {
    throw InputError(file + ": its values are " +
                     in_quotes(quoted.substr(std::min<std::size_t>(1, quoted.size()), quoted.find('\'', 1) - 1)) +
                     "; expected '<f2', '<f4', '<f8', '|i1' or '|b1'");
  }

  // "(256, 64)"
  std::string_view shape = value_of("shape");
  shape = shape.substr(0, std::min(shape.find(')'), shape.size() - 1) + 1);
  Tensor tensor{std::string(type->type)};
  std::uint64_t bytes_expected = find_type(type->type)->bytes;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (const char *at = shape.data(), *end = at + shape.size(); (at = std::find_if(at, end, is_digit)) != end;) {
    std::uint64_t& size = tensor.shape[std::min<std::uint64_t>(tensor.dimensions++, 2)];
    at = std::from_chars(at, end, size).ptr;
    tensor.too_many_elements |= __builtin_mul_overflow(bytes_expected, size, &bytes_expected);
  }
  drop_single_direction(tensor);
  if (tensor.too_many_elements || bytes_expected != data.size()) {
    throw InputError(file + ": its shape is " + in_quotes(shape) + ", which the " + std::to_string(data.size()) +
                     " bytes of data are not; is the file truncated?");
  }
  tensor.elements = tensor.shape[0] * tensor.shape[1];
  if (!value_of("fortran_order").starts_with("True")) {
    return decode(tensor, data, file + ": the array");
  }
  std::swap(tensor.shape[0], tensor.shape[1]);  // by columns: the rows of the transposed
  return transposed(decode(tensor, data, file + ": the array"));
}

}  // namespace onchip
