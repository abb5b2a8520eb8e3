// SPDX-License-Identifier: Apache-2.0
// safetensors files (https://github.com/huggingface/safetensors, "Format"):
//   8 bytes   length N of the header, little-endian
//   N bytes   JSON: {"name": {"dtype": "F16", "shape": [rows, columns], "data_offsets": [begin, end]}, ...}
//   the rest  the tensors' data, little-endian, row-major; offsets count from its first byte
// A checkpoint of several such files ("shards") has an index: {"weight_map": {"name": "file", ...}}
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/joined.hpp"
#include "model/base/json.hpp"
#include "model/workload/files/safetensors_header.hpp"
#include "model/workload/files/weights_file.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format's own reader

using safetensors::read_matrix, safetensors::read_tensors;
using safetensors::Tensors, safetensors::kMask, safetensors::kOriginal;

using HeaderJson = nlohmann::json;

bool is_whole_list(const HeaderJson& json) {
  return json.is_array() && std::ranges::all_of(json, [](const HeaderJson& one) { return one.is_number_unsigned(); });
}

// The table of tensors, without its keys of other tools.
Tensors tensors_in(const std::string& header, const std::string& file) {
  const auto json = parse_json<HeaderJson>(header, file);
  if (!json.is_object()) {
    throw InputError(file + ": its header is no JSON object");
  }
  Tensors tensors;
  for (const auto& [name, of] : json.items()) {
    if (name == "__metadata__") {
      continue;
    }
    const auto value = [&, &who = name, &keys = of](const char* key, bool (*is_one)(const HeaderJson&),
                                                    const char* expected) -> const HeaderJson& {
      const auto found = keys.is_object() ? keys.find(key) : keys.end();
      if (found == keys.end() || !is_one(*found)) {
        throw InputError(file + ": tensor " + in_quotes(who) + " has no " + in_quotes(key) + ", " + expected);
      }
      return *found;
    };
    Tensor& tensor = tensors[name];
    tensor.type = value(
                      "dtype", [](const HeaderJson& one) { return one.is_string(); }, "a string")
                      .get<std::string>();
    for (const HeaderJson& extent : value("shape", is_whole_list, "a list of whole numbers")) {
      const auto number = extent.get<std::uint64_t>();
      if (tensor.dimensions < tensor.shape.size()) {
        tensor.shape[tensor.dimensions] = number;
      }
      ++tensor.dimensions;
      tensor.too_many_elements |= __builtin_mul_overflow(tensor.elements, number, &tensor.elements);
    }
    drop_single_direction(tensor);
    const HeaderJson& offsets = value(
        "data_offsets", [](const HeaderJson& one) { return is_whole_list(one) && one.size() == 2; },
        "two whole numbers");
    tensor.begin = offsets[0];
    tensor.end = offsets[1];
  }
  return tensors;
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
  return joined(std::span(names).first(std::min(names.size(), kLongest)), ", ", "", in_quotes) +
         (names.size() > kLongest ? " and " + std::to_string(names.size() - kLongest) + " more" : "");
}

// The mask beside "NAME_orig", if there is one.
Tensors::const_iterator mask_of(const Tensors& tensors, std::string_view original) {
  return original.ends_with(kOriginal)
             ? tensors.find(std::string(original.substr(0, original.size() - kOriginal.size())) + std::string(kMask))
             : tensors.end();
}

bool says_recurrent(std::string_view name) {
  return name.find("weight_hh") != std::string_view::npos || name.find("recurrent") != std::string_view::npos;
}

// [gates * hidden, hidden]
bool is_recurrent_shape(const Tensor& tensor, const TensorChoice& choice) {
  const std::uint64_t rows = tensor.shape[choice.transpose ? 1 : 0], columns = tensor.shape[choice.transpose ? 0 : 1];
  return std::ranges::any_of(kCells, [&](const CellInfo& cell) {
    return (choice.gates == 0 || choice.gates == cell.gates) && columns > 0 && rows % columns == 0 &&
           rows / columns == static_cast<std::uint64_t>(cell.gates);
  });
}

// The tensor that is asked for, a pruned weight NAME_orig by NAME, too. Of a module, or of the file where none is
// named, all that can be recurrent weights: those whose names say so, or else all matrices, and of several those whose
// shape does.
std::vector<std::string_view> choose(const Tensors& tensors, const TensorChoice& choice, const std::string& file_name) {
  std::vector<std::string_view> matrices, recurrent;
  for (const auto& [name, tensor] : tensors) {
    const bool is_mask =
        name.ends_with(kMask) && tensors.contains(name.substr(0, name.size() - kMask.size()) + std::string(kOriginal));
    if (tensor.dimensions == 2 && !is_mask) {
      matrices.push_back(name);
    }
  }
  const std::string wanted(choice.tensor);
  for (const std::string& name : {wanted, wanted + std::string(kOriginal)}) {
    if (const auto found = tensors.find(name); !wanted.empty() && found != tensors.end()) {
      return {found->first};
    }
  }
  std::ranges::copy_if(matrices, std::back_inserter(recurrent), [&](std::string_view name) {
    return says_recurrent(name) && (wanted.empty() || name.starts_with(wanted + '.'));
  });
  if (recurrent.empty() && !wanted.empty()) {
    throw InputError(file_name + ": no tensor " + in_quotes(wanted) + did_you_mean(wanted, matrices) +
                     (matrices.empty() ? "; the file holds no 2-D tensor" : "; 2-D tensors: " + list(matrices)));
  }
  if (matrices.empty()) {
    throw InputError(file_name + ": the file holds no 2-D tensor");
  }
  std::vector<std::string_view> of_shape;
  std::ranges::copy_if(recurrent.empty() ? matrices : recurrent, std::back_inserter(of_shape),
                       [&](std::string_view name) { return is_recurrent_shape(tensors.find(name)->second, choice); });
  if (recurrent.empty()) {
    recurrent = matrices;
  }
  if (recurrent.size() > 1 && !of_shape.empty()) {
    recurrent = of_shape;
  }
  std::ranges::sort(recurrent, [](std::string_view a, std::string_view b) {
    return strverscmp(std::string(a).c_str(), std::string(b).c_str()) < 0;  // l2 before l10
  });
  return recurrent;
}

}  // namespace

Tensors safetensors::read_tensors(const InputFile& input, const std::string& file) {
  if (input.size() < kLengthBytes) {
    throw InputError(file + ": not a safetensors file: it has " + std::to_string(input.size()) +
                     " bytes, fewer than the 8 of the header's length");
  }
  std::uint64_t header_bytes;
  std::memcpy(&header_bytes, input.read(0, kLengthBytes).data(), kLengthBytes);
  const std::uint64_t left = input.size() - kLengthBytes;
  if (header_bytes > left) {
    throw InputError(file + ": not a safetensors file, or a truncated one: its header claims " +
                     std::to_string(header_bytes) + " bytes, but " + std::to_string(left) + " follow");
  }
  if (header_bytes > kMaxHeaderBytes) {
    throw InputError(file + ": its header claims " + std::to_string(header_bytes) + " bytes; the format's limit is " +
                     std::to_string(kMaxHeaderBytes));
  }
  const std::string header = input.read(kLengthBytes, header_bytes);
  if (header.find('\0') != std::string::npos) {
    throw InputError(file + ": its header holds a NUL byte; the format pads it with spaces");
  }
  Tensors tensors = tensors_in(header, file);
  check_extents(tensors, left - header_bytes, file);
  for (auto& [name, tensor] : tensors) {
    tensor.file = &input;
    tensor.begin += kLengthBytes + header_bytes;
    tensor.end += kLengthBytes + header_bytes;
  }
  return tensors;
}

SparseMatrix safetensors::read_matrix(const Tensors& tensors, const std::string& file, const TensorChoice& choice) {
  const std::vector<std::string_view> names = choose(tensors, choice, file);
  if (names.size() != 1) {
    throw InputError(file + ": the file holds " + std::to_string(names.size()) +
                     " 2-D tensors that can be recurrent weights; name one of them: " + list(names));
  }
  const auto chosen = tensors.find(names.front());
  const auto who_is = [&](Tensors::const_iterator of) { return file + ": tensor " + in_quotes(of->first); };
  const std::string who = who_is(chosen);
  std::vector<float> scales, mask;
  if (const auto of = mask_of(tensors, chosen->first); of != tensors.end()) {
    if (of->second.dimensions != 2 || of->second.shape != chosen->second.shape) {
      throw InputError(who + " has shape " + shape_text(chosen->second) + ", its mask " + shape_text(of->second));
    }
    mask = decode_values(of->second, who_is(of));
  }
  if (const auto of = tensors.find(chosen->first + "_scale"); is_quantised(chosen->second) && of != tensors.end()) {
    if (of->second.elements != 1 && of->second.elements != chosen->second.shape[0]) {
      throw InputError(who + " has " + std::to_string(of->second.elements) +
                       " scales; expected one, or one of each row");
    }
    scales = decode_values(of->second, who_is(of));
  }
  return decode(chosen->second, chosen->second.data(), who, scales, mask);
}

SparseMatrix parse_safetensors(std::string_view bytes, std::string_view file_name, const TensorChoice& choice) {
  const std::string file(file_name);
  return read_matrix(read_tensors(InputFile(InMemory{bytes}), file), file, choice);
}

namespace {

// A file's tensors, or, by the index of a checkpoint, those of its files that can be what is asked for.
struct OpenTensors {
  std::map<std::string, std::unique_ptr<InputFile>> files;
  Tensors tensors;
};

OpenTensors open_index(const std::filesystem::path& file, const TensorChoice& choice) {
  const auto index = parse_json<nlohmann::json>(InputFile(file).bytes(), file.string());
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object() ||
      !std::ranges::all_of(*map, [](const auto& shard) { return shard.is_string(); })) {
    throw InputError(file.string() +
                     ": expected the index of a checkpoint, {\"weight_map\": {\"TENSOR\": \"FILE\", ...}}");
  }
  // Of the shards only those are opened that can have the tensor, its mask or its scale.
  const auto can_be = [&](std::string_view name) {
    return choice.tensor.empty() ? says_recurrent(name) : name.starts_with(choice.tensor);
  };
  std::map<std::string, std::string> shard_of;
  for (const bool all : {false, true}) {
    for (const auto& [name, shard] : map->items()) {
      if (all || can_be(name)) {
        shard_of.emplace(name, shard.get<std::string>());
      }
    }
    if (!shard_of.empty()) {
      break;
    }
  }
  OpenTensors open;
  for (const auto& [name, shard] : shard_of) {
    auto& opened = open.files[shard];
    if (!opened) {
      const std::filesystem::path path = file.parent_path() / shard;
      opened = std::make_unique<InputFile>(path);
      for (auto& [of_shard, tensor] : read_tensors(*opened, path.string())) {
        if (map->value(of_shard, "") == shard) {
          open.tensors.insert_or_assign(of_shard, tensor);
        }
      }
    }
  }
  return open;
}

OpenTensors open_tensors(const std::filesystem::path& file, const TensorChoice& choice) {
  if (stem_and_extension(file).second == ".json") {
    return open_index(file, choice);
  }
  OpenTensors open;
  const auto& opened = open.files[""] = std::make_unique<InputFile>(file);
  open.tensors = read_tensors(*opened, file.string());
  return open;
}

}  // namespace

SparseMatrix read_safetensors(const std::filesystem::path& file, const TensorChoice& choice) {
  const OpenTensors open = open_tensors(file, choice);
  return read_matrix(open.tensors, file.string(), choice);
}

std::vector<std::string> recurrent_tensors(const std::filesystem::path& file, const TensorChoice& choice) {
  if (const std::string extension = stem_and_extension(file).second;
      extension != ".json" && extension != ".safetensors") {
    return {std::string(choice.tensor)};
  }
  const OpenTensors open = open_tensors(file, choice);
  const std::vector<std::string_view> names = choose(open.tensors, choice, file.string());
  return {names.begin(), names.end()};
}

std::vector<float> read_safetensors_vector(const std::filesystem::path& file, std::string_view tensor) {
  const InputFile input(file);
  const Tensors tensors = read_tensors(input, file.string());
  const auto found = tensors.find(tensor);
  if (found == tensors.end()) {
    throw InputError(file.string() + ": no tensor " + in_quotes(tensor));
  }
  const std::string who = file.string() + ": tensor " + in_quotes(found->first);
  if (found->second.dimensions != 1) {
    throw InputError(who + " has shape " + shape_text(found->second) + "; expected one dimension");
  }
  return decode_values(found->second, who);
}

}  // namespace onchip
