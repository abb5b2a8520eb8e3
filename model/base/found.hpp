// SPDX-License-Identifier: Apache-2.0
// What a search found, or why it found nothing: a result, not an error.
#pragma once

#include "model/base/error.hpp"

#include <optional>
#include <string>
#include <utility>

namespace onchip {

template <typename T>
class Found {
 public:
  Found(T value) : value_(std::move(value)) {}
  // One sentence with its numbers: "8 images of 16384 neurons take 262 KB of shared memory; a block has 227 KB".
  static Found nothing(std::string why) {
    Found none;
    none.why_ = std::move(why);
    return none;
  }

  explicit operator bool() const { return value_.has_value(); }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }
  const std::string& why() const { return why_; }  // "" where something was found
  const T& value_or_throw() const {                // InputError that says why
    if (!value_) {
      throw InputError(why_);
    }
    return *value_;
  }

 private:
  Found() = default;
  std::optional<T> value_;
  std::string why_;
};

}  // namespace onchip
