// SPDX-License-Identifier: Apache-2.0
#include "model/base/json.hpp"

#include "model/base/error.hpp"

namespace onchip {

void JsonLimits::open() {
  constexpr std::size_t kMostDepth = 100;
  keys_.emplace_back();
  if (keys_.size() > kMostDepth) {
    fail("more than 100 brackets within each other");
  }
}

void JsonLimits::add_key(const std::string& name) {
  if (!keys_.back().insert(name).second) {
    fail("the key " + in_quotes(name) + " is there twice");
  }
  if (keys_.back().size() > most_keys_) {
    fail("more than " + std::to_string(most_keys_) + " keys in one object");
  }
}

void JsonLimits::fail(const std::string& what) const {
  throw InputError(std::string(where_) + ": " + what);
}

}  // namespace onchip
