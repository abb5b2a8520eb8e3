// SPDX-License-Identifier: Apache-2.0
// safetensors files (https://github.com/huggingface/safetensors, "Format"):
//   8 bytes   length N of the header, little-endian
//   N bytes   JSON: {"name": {"dtype": "F16", "shape": [rows, columns], "data_offsets": [begin, end]}, ...}
//   the rest  the tensors' data, little-endian, row-major; offsets count from its first byte
// A checkpoint of several such files ("shards") has an index: {"weight_map": {"name": "file", ...}}
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/json.hpp"
#include "model/workload/files/safetensors_header.hpp"
#include "model/workload/files/weights_file.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace onchip {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format's own reader

using safetensors::read_matrix, safetensors::read_tensors;
using safetensors::Tensors, safetensors::kMask, safetensors::kOriginal;

constexpr std::array<std::string_view, 3> kTensorKeys{"dtype", "shape", "data_offsets"};
enum class TensorKey : std::uint8_t { dtype, shape, data_offsets, none };

// Builds the table of tensors while the JSON is read, so that a hostile header (deep nesting, long shapes) takes no
// memory beyond its names.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(std::string_view file_name) : file_name_(file_name) {}

  Tensors take() { return std::move(tensors_); }

  bool start_object(std::size_t) override {
    if (enter_ignored()) {
      return true;
    }
    if (depth_ >= 2) {
      unexpected("an object");
    }
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (leave_ignored()) {
      return true;
    }
    if (depth_ == 2 && tensor_) {
      for (std::size_t i = 0; i < kTensorKeys.size(); ++i) {
        if (!seen_[i]) {
          fail("has no " + in_quotes(kTensorKeys[i]));
        }
      }
    }
    --depth_;
    return true;
  }
  bool key(std::string& name) override {
    if (ignored_depth_ > 0) {
      return true;
    }
    if (depth_ == 1) {
      name_ = name;
      seen_ = {};
      key_ = TensorKey::none;
      tensor_ = nullptr;
      if (name == "__metadata__") {
        if (std::exchange(metadata_, true)) {
          fail("is there twice");
        }
        return true;
      }
      const auto [position, inserted] = tensors_.try_emplace(name);
      if (!inserted) {
        fail("is there twice");
      }
      tensor_ = &position->second;
    } else if (tensor_) {
      const auto found = std::find(kTensorKeys.begin(), kTensorKeys.end(), name);
      if (found == kTensorKeys.end()) {  // of a later version of the format, or a tool's own
        ignores_value_ = true;
        return true;
      }
      const auto index = static_cast<std::size_t>(found - kTensorKeys.begin());
      if (std::exchange(seen_[index], true)) {
        fail("has " + in_quotes(name) + " twice");
      }
      key_ = static_cast<TensorKey>(index);
    }
    return true;
  }
  bool start_array(std::size_t) override {
    if (enter_ignored()) {
      return true;
    }
    if (depth_ != 2 || !tensor_ || (key_ != TensorKey::shape && key_ != TensorKey::data_offsets)) {
      unexpected("an array");
    }
    ++depth_;
    offsets_ = 0;
    return true;
  }
  bool end_array() override {
    if (leave_ignored()) {
      return true;
    }
    --depth_;
    if (key_ == TensorKey::shape) {
      drop_single_direction(*tensor_);
    }
    if (key_ == TensorKey::data_offsets && offsets_ != 2) {
      fail("needs two numbers as 'data_offsets'");
    }
    return true;
  }
  bool number_unsigned(std::uint64_t number) override {
    if (is_ignored()) {
      return true;
    }
    if (depth_ != 3) {
      unexpected("a number");
    }
    if (key_ == TensorKey::shape) {
      if (tensor_->dimensions < tensor_->shape.size()) {
        tensor_->shape[tensor_->dimensions] = number;
      }
      ++tensor_->dimensions;
      tensor_->too_many_elements |= __builtin_mul_overflow(tensor_->elements, number, &tensor_->elements);
    } else {
      if (offsets_ == 2) {
        fail("needs two numbers as 'data_offsets'");
      }
      (offsets_ == 0 ? tensor_->begin : tensor_->end) = number;
      ++offsets_;
    }
    return true;
  }
  bool string(std::string& text) override {
    if (is_ignored()) {
      return true;
    }
    if (depth_ == 2 && metadata_value()) {
      return true;
    }
    if (depth_ != 2 || key_ != TensorKey::dtype) {
      unexpected("a string");
    }
    tensor_->type = text;
    return true;
  }
  bool number_integer(std::int64_t) override { return is_ignored() || unexpected("a negative number"); }
  bool number_float(double, const std::string&) override {
    return is_ignored() || unexpected("a number that is no 64-bit unsigned integer");
  }
  bool null() override { return is_ignored() || (depth_ == 1 && metadata_value()) || unexpected("null"); }
  bool boolean(bool) override { return is_ignored() || unexpected("a truth value"); }
  bool binary(nlohmann::json::binary_t&) override { return unexpected("binary data"); }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    throw InputError(file_name_ + ": the header is not valid JSON at its byte " + std::to_string(byte));
  }

 private:
  bool metadata_value() const { return !tensor_; }

  // The value of a key that is not read, however deep.
  bool enter_ignored() {
    if (ignores_value_ || ignored_depth_ > 0) {
      ++ignored_depth_;
      ignores_value_ = false;
      return true;
    }
    return false;
  }
  bool leave_ignored() {
    if (ignored_depth_ > 0) {
      --ignored_depth_;
      return true;
    }
    return false;
  }
  bool is_ignored() { return std::exchange(ignores_value_, false) || ignored_depth_ > 0; }

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(file_name_ + ": " + (name_ == "__metadata__" ? "" : "tensor ") + in_quotes(name_) + " " + message);
  }
  [[noreturn]] bool unexpected(const std::string& found) const {
    if (depth_ == 0) {
      throw InputError(file_name_ + ": expected the header to be an object, found " + found);
    }
    std::string where = depth_ == 1 || metadata_value() || key_ == TensorKey::none
                            ? std::string()
                            : "as " + in_quotes(kTensorKeys[static_cast<std::size_t>(key_)]) + " ";
    fail("has " + found + " " + where + "where the format has none");
  }

  std::string file_name_;
  Tensors tensors_;
  bool metadata_ = false;  // seen
  // Where the reader is: depth 1 in the header, 2 in a tensor or the metadata, 3 in a shape or the offsets.
  int depth_ = 0;
  std::string name_;
  Tensor* tensor_ = nullptr;  // null in the metadata
  TensorKey key_ = TensorKey::none;
  std::array<bool, kTensorKeys.size()> seen_{};
  int offsets_ = 0;
  bool ignores_value_ = false;
  int ignored_depth_ = 0;
};

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

// The tensor that is asked for, or the only one that can be recurrent weights: the only matrix, or the only one whose
// name says so, or else whose shape does. A pruned weight NAME is found as NAME, too.
Tensors::const_iterator choose(const Tensors& tensors, const TensorChoice& choice, const std::string& file_name) {
  std::vector<std::string_view> matrices, recurrent;
  for (const auto& [name, tensor] : tensors) {
    const bool is_mask =
        name.ends_with(kMask) && tensors.contains(name.substr(0, name.size() - kMask.size()) + std::string(kOriginal));
    if (tensor.dimensions == 2 && !is_mask) {
      matrices.push_back(name);
    }
  }
  const std::string_view wanted = choice.tensor;
  if (!wanted.empty()) {
    auto found = tensors.find(wanted);
    if (found == tensors.end()) {
      found = tensors.find(std::string(wanted) + std::string(kOriginal));
    }
    if (found != tensors.end()) {
      return found;
    }
    throw InputError(file_name + ": no tensor " + in_quotes(wanted) + did_you_mean(wanted, matrices) +
                     (matrices.empty() ? "; the file holds no 2-D tensor" : "; 2-D tensors: " + list(matrices)));
  }
  if (matrices.empty()) {
    throw InputError(file_name + ": the file holds no 2-D tensor");
  }
  std::ranges::copy_if(matrices, std::back_inserter(recurrent), says_recurrent);
  if (recurrent.empty()) {
    recurrent = matrices;
  }
  if (recurrent.size() > 1) {
    std::erase_if(recurrent, [&](auto name) { return !is_recurrent_shape(tensors.find(name)->second, choice); });
  }
  if (recurrent.size() != 1) {
    throw InputError(file_name + ": the file holds " + std::to_string(matrices.size()) +
                     " 2-D tensors; name one of them: " + list(matrices));
  }
  return tensors.find(recurrent.front());
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
  HeaderReader reader(file);
  nlohmann::json::sax_parse(header, &reader);
  Tensors tensors = reader.take();
  check_extents(tensors, left - header_bytes, file);
  for (auto& [name, tensor] : tensors) {
    tensor.file = &input;
    tensor.begin += kLengthBytes + header_bytes;
    tensor.end += kLengthBytes + header_bytes;
  }
  return tensors;
}

SparseMatrix safetensors::read_matrix(const Tensors& tensors, const std::string& file, const TensorChoice& choice) {
  const auto chosen = choose(tensors, choice, file);
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

SparseMatrix read_safetensors(const std::filesystem::path& file, const TensorChoice& choice) {
  const InputFile input(file);
  return read_matrix(read_tensors(input, file.string()), file.string(), choice);
}

SparseMatrix read_safetensors_index(const std::filesystem::path& file, const TensorChoice& choice) {
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
  std::map<std::string, std::unique_ptr<InputFile>> shards;
  Tensors tensors;
  for (const auto& [name, shard] : shard_of) {
    auto& opened = shards[shard];
    if (!opened) {
      const std::filesystem::path path = file.parent_path() / shard;
      opened = std::make_unique<InputFile>(path);
      for (auto& [of_shard, tensor] : read_tensors(*opened, path.string())) {
        if (map->value(of_shard, "") == shard) {
          tensors.insert_or_assign(of_shard, tensor);
        }
      }
    }
  }
  return read_matrix(tensors, file.string(), choice);
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
