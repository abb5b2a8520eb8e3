// SPDX-License-Identifier: Apache-2.0
// How a plan that came in as text is refused.
#pragma once

#include "model/base/error.hpp"

#include <string>

namespace onchip {

// Throws InputError "plan: expected ..." unless it holds.
inline void require(bool holds, const std::string& expected) {
  if (!holds) {
    throw InputError("plan: expected " + expected);
  }
}

inline void require_range(const char* name, int value, int minimum, int maximum) {
  if (value < minimum || value > maximum) {  // else no text is made
    require(false, std::string(name) + " from " + std::to_string(minimum) + " to " + std::to_string(maximum) +
                       ", found " + std::to_string(value));
  }
}

}  // namespace onchip
