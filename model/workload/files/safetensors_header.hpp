// SPDX-License-Identifier: Apache-2.0
// A safetensors file's tensors: types, shapes and extents, from its header.
#pragma once

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/workload/files/tensor.hpp"
#include "model/workload/files/weights_file.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace onchip::safetensors {

using Tensors = std::map<std::string, Tensor, std::less<>>;

// What torch.nn.utils.prune saves of a weight: its values and, beside them, which of them count.
inline constexpr std::string_view kOriginal = "_orig", kMask = "_mask";

// The tensors of a file, whose bytes they point to. Throws InputError for a header or extents that are not valid.
Tensors read_tensors(std::string_view bytes, const std::string& file);
// A matrix with its mask and scales.
SparseMatrix read_matrix(const Tensors& tensors, const std::string& file, const TensorChoice& choice);

inline constexpr std::array<std::string_view, 3> kTensorKeys{"dtype", "shape", "data_offsets"};
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
    if (key_ == TensorKey::shape && tensor_->dimensions == 3 && tensor_->shape[0] == 1) {  // of one direction, in ONNX
      tensor_->dimensions = 2;
      tensor_->shape = {tensor_->shape[1], tensor_->shape[2]};
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

}  // namespace onchip::safetensors
