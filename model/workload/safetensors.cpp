// SPDX-License-Identifier: Apache-2.0
// safetensors files (https://github.com/huggingface/safetensors, "Format"):
//   8 bytes   length N of the header, little-endian
//   N bytes   JSON: {"name": {"dtype": "F16", "shape": [rows, columns], "data_offsets": [begin, end]}, ...}
//   the rest  the tensors' data, little-endian, row-major; offsets count from its first byte
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/numeric.hpp"
#include "model/workload/mask.hpp"
#include "model/workload/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

namespace onchip {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor data are read as they lie in the file");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format's own reader

// Every data type of the format, so that the extent of each tensor can be checked; those with a reader can be weights.
using Reader = float (*)(const char*);
struct DataType {
  std::string_view name;
  std::uint64_t bytes;
  Reader read;
};

template <typename T>
T load(const char* data) {
  T value;
  std::memcpy(&value, data, sizeof value);  // tensors need not be aligned
  return value;
}

float read_f16(const char* data) {
  const std::uint32_t bits = load<std::uint16_t>(data);
  const std::uint32_t sign = (bits & 0x8000) << 16;
  const std::uint32_t exponent = (bits >> 10) & 31;
  const std::uint32_t fraction = bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent == 31 ? 255U : exponent + 112) << 23 | fraction << 13);
}

float read_bf16(const char* data) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(data)) << 16);
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

using safetensors::HeaderReader, safetensors::Tensor, safetensors::Tensors;

const DataType* find_type(std::string_view name) {
  const auto found =
      std::find_if(kDataTypes.begin(), kDataTypes.end(), [&](const DataType& type) { return type.name == name; });
  return found == kDataTypes.end() ? nullptr : &*found;
}

std::string shape_text(const Tensor& tensor) {
  std::string text = "[";
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(tensor.dimensions, 2); ++i) {
    text += (i ? ", " : "") + std::to_string(tensor.shape[i]);
  }
  return text + (tensor.dimensions > 2 ? ", ...]" : "]");
}

// Every tensor lies within the data, is as long as its shape says, and is followed by the next at once.
void check_extents(const Tensors& tensors, std::uint64_t data_bytes, const std::string& file_name) {
  struct Extent {
    std::uint64_t begin, end;
    const std::string* name;
  };
  std::vector<Extent> extents;
  extents.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const std::string who = file_name + ": tensor " + in_quotes(name);
    const std::string offsets = std::to_string(tensor.begin) + " to " + std::to_string(tensor.end);
    if (tensor.begin > tensor.end) {
      throw InputError(who + " has offsets " + offsets + ", which run backwards");
    }
    const DataType* type = find_type(tensor.type);
    std::uint64_t bytes = 0;
    if (tensor.too_many_elements || (type && __builtin_mul_overflow(tensor.elements, type->bytes, &bytes))) {
      throw InputError(who + " has a shape of more than 2^64 bytes");
    }
    if (type && bytes != tensor.end - tensor.begin) {
      throw InputError(who + " of shape " + shape_text(tensor) + " and dtype " + in_quotes(tensor.type) + " takes " +
                       std::to_string(bytes) + " bytes, but its offsets are " + offsets);
    }
    if (tensor.end > data_bytes) {
      throw InputError(who + " has offsets " + offsets + ", but the file holds " + std::to_string(data_bytes) +
                       " bytes of data; is it truncated?");
    }
    if (tensor.begin != tensor.end) {
      extents.push_back({tensor.begin, tensor.end, &name});
    }
  }
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i].begin < end) {
      throw InputError(file_name + ": tensors " + in_quotes(*extents[i - 1].name) + " and " +
                       in_quotes(*extents[i].name) + " overlap");
    }
    if (extents[i].begin > end) {
      throw InputError(file_name + ": " + std::to_string(extents[i].begin - end) + " bytes before tensor " +
                       in_quotes(*extents[i].name) + " are no tensor's");
    }
    end = extents[i].end;
  }
  if (end != data_bytes) {
    throw InputError(file_name + ": " + std::to_string(data_bytes - end) +
                     " bytes after the last tensor are no tensor's");
  }
}

std::string list(const std::vector<std::string_view>& names) {
  constexpr std::size_t kLongest = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kLongest); ++i) {
    text += (i ? ", " : "") + in_quotes(names[i]);
  }
  return text + (names.size() > kLongest ? " and " + std::to_string(names.size() - kLongest) + " more" : "");
}

// What torch.nn.utils.prune saves of a weight: its values and, beside them, which of them count.
constexpr std::string_view kOriginal = "_orig", kMask = "_mask";

// The mask beside "NAME_orig", if there is one.
Tensors::const_iterator mask_of(const Tensors& tensors, std::string_view original) {
  return original.ends_with(kOriginal)
             ? tensors.find(std::string(original.substr(0, original.size() - kOriginal.size())) + std::string(kMask))
             : tensors.end();
}

// The tensor called `wanted`, or the only one that can be recurrent weights: the only matrix, or the only one whose
// name says so. A pruned weight NAME is found as NAME, too.
Tensors::const_iterator choose(const Tensors& tensors, std::string_view wanted, const std::string& file_name) {
  std::vector<std::string_view> matrices, recurrent;
  for (const auto& [name, tensor] : tensors) {
    const bool is_mask =
        name.ends_with(kMask) && tensors.contains(name.substr(0, name.size() - kMask.size()) + std::string(kOriginal));
    if (tensor.dimensions == 2 && !is_mask) {
      matrices.push_back(name);
      if (name.find("weight_hh") != std::string::npos || name.find("recurrent") != std::string::npos) {
        recurrent.push_back(name);
      }
    }
  }
  if (!wanted.empty()) {
    auto found = tensors.find(wanted);
    if (found == tensors.end()) {
      found = tensors.find(std::string(wanted) + std::string(kOriginal));
    }
    if (found != tensors.end()) {
      return found;
    }
    // A suggestion is printed as it is: only names that need no escapes.
    std::vector<std::string_view> plain;
    std::copy_if(matrices.begin(), matrices.end(), std::back_inserter(plain), [](std::string_view name) {
      return std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
    });
    throw InputError(file_name + ": no tensor " + in_quotes(wanted) + did_you_mean(wanted, plain) +
                     (matrices.empty() ? "; the file holds no 2-D tensor" : "; 2-D tensors: " + list(matrices)));
  }
  if (matrices.empty()) {
    throw InputError(file_name + ": the file holds no 2-D tensor");
  }
  if (matrices.size() > 1 && recurrent.size() != 1) {
    throw InputError(file_name + ": the file holds " + std::to_string(matrices.size()) +
                     " 2-D tensors; name one of them: " + list(matrices));
  }
  return tensors.find(matrices.size() == 1 ? matrices.front() : recurrent.front());
}

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

// Weights of a quantised checkpoint are times a scale, of all or of each row; of a pruned one those count whose mask is
// not zero. Either may be empty.
SparseMatrix decode(const Tensor& tensor, const char* data, const std::string& who, std::span<const float> scales,
                    std::span<const float> mask) {
  if (tensor.dimensions != 2) {
    throw InputError(who + " has shape " + shape_text(tensor) + "; expected two dimensions");
  }
  const DataType* const type = &readable_type(tensor, who);
  for (const std::uint64_t size : tensor.shape) {
    if (size < 1 || size > kMaxDimension) {
      throw InputError(who + " has shape " + shape_text(tensor) + "; expected 1 to " + std::to_string(kMaxDimension) +
                       " rows and columns");
    }
  }
  SparseMatrix matrix{static_cast<int>(tensor.shape[0]), static_cast<int>(tensor.shape[1]), {}, {}, {}};
  const auto value_at = [&](std::uint64_t element) {
    const float scale = scales.empty() ? 1.0F : scales[scales.size() == 1 ? 0 : element / tensor.shape[1]];
    const float value = type->read(data + element * type->bytes) * scale;
    return mask.empty() || mask[element] != 0 ? value : 0.0F;
  };
  std::uint64_t nnz = 0;
  for (std::uint64_t i = 0; i < tensor.elements; ++i) {
    const float value = value_at(i);
    if (!std::isfinite(value)) {
      refuse_value(*type, data + i * type->bytes, who,
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

std::vector<float> decode_values(const Tensor& tensor, const char* data, const std::string& who) {
  const DataType& type = readable_type(tensor, who);
  std::vector<float> values(tensor.elements);
  for (std::uint64_t i = 0; i < tensor.elements; ++i) {
    values[i] = type.read(data + i * type.bytes);
    if (!std::isfinite(values[i])) {
      refuse_value(type, data + i * type.bytes, who, std::to_string(i));
    }
  }
  return values;
}

struct Contents {
  Tensors tensors;
  std::string_view data;
};

Contents read_contents(std::string_view bytes, const std::string& file) {
  if (bytes.size() < kLengthBytes) {
    throw InputError(file + ": not a safetensors file: it has " + std::to_string(bytes.size()) +
                     " bytes, fewer than the 8 of the header's length");
  }
  const auto header_bytes = load<std::uint64_t>(bytes.data());
  const std::uint64_t left = bytes.size() - kLengthBytes;
  if (header_bytes > left) {
    throw InputError(file + ": not a safetensors file, or a truncated one: its header claims " +
                     std::to_string(header_bytes) + " bytes, but " + std::to_string(left) + " follow");
  }
  if (header_bytes > kMaxHeaderBytes) {
    throw InputError(file + ": its header claims " + std::to_string(header_bytes) + " bytes; the format's limit is " +
                     std::to_string(kMaxHeaderBytes));
  }
  const std::string_view header = bytes.substr(kLengthBytes, header_bytes);
  if (header.find('\0') != std::string_view::npos) {
    throw InputError(file + ": its header holds a NUL byte; the format pads it with spaces");
  }
  HeaderReader reader(file);
  nlohmann::json::sax_parse(header.begin(), header.end(), &reader);
  Contents contents{reader.take(), bytes.substr(kLengthBytes + header_bytes)};
  check_extents(contents.tensors, contents.data.size(), file);
  return contents;
}

}  // namespace

SparseMatrix parse_safetensors(std::string_view bytes, std::string_view file_name, std::string_view tensor) {
  const std::string file(file_name);
  const Contents contents = read_contents(bytes, file);
  const auto chosen = choose(contents.tensors, tensor, file);
  const std::string who = file + ": tensor " + in_quotes(chosen->first);
  const auto values_of = [&](Tensors::const_iterator of) {
    return decode_values(of->second, contents.data.data() + of->second.begin,
                         file + ": tensor " + in_quotes(of->first));
  };
  std::vector<float> scales, mask;
  if (const auto of = mask_of(contents.tensors, chosen->first); of != contents.tensors.end()) {
    if (of->second.dimensions != 2 || of->second.shape != chosen->second.shape) {
      throw InputError(who + " has shape " + shape_text(chosen->second) + ", its mask " + shape_text(of->second));
    }
    mask = values_of(of);
  }
  const bool is_quantised = chosen->second.type == "I8" || chosen->second.type == "F8_E4M3";
  if (const auto of = contents.tensors.find(chosen->first + "_scale"); is_quantised && of != contents.tensors.end()) {
    if (of->second.elements != 1 && of->second.elements != chosen->second.shape[0]) {
      throw InputError(who + " has " + std::to_string(of->second.elements) +
                       " scales; expected one, or one of each row");
    }
    scales = values_of(of);
  }
  return decode(chosen->second, contents.data.data() + chosen->second.begin, who, scales, mask);
}

SparseMatrix read_safetensors(const std::filesystem::path& file, std::string_view tensor) {
  const MappedFile mapped(file);
  return parse_safetensors(mapped.bytes(), file.string(), tensor);
}

std::vector<float> parse_safetensors_vector(std::string_view bytes, std::string_view file_name,
                                            std::string_view tensor) {
  const std::string file(file_name);
  const Contents contents = read_contents(bytes, file);
  const auto found = contents.tensors.find(tensor);
  if (found == contents.tensors.end()) {
    throw InputError(file + ": no tensor " + in_quotes(tensor));
  }
  const std::string who = file + ": tensor " + in_quotes(found->first);
  if (found->second.dimensions != 1) {
    throw InputError(who + " has shape " + shape_text(found->second) + "; expected one dimension");
  }
  return decode_values(found->second, contents.data.data() + found->second.begin, who);
}

std::vector<float> read_safetensors_vector(const std::filesystem::path& file, std::string_view tensor) {
  const MappedFile mapped(file);
  return parse_safetensors_vector(mapped.bytes(), file.string(), tensor);
}

}  // namespace onchip
