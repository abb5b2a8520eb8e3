// SPDX-License-Identifier: Apache-2.0
// What a kernel is compiled with: "ONCHIP_NAME=VALUE".
#pragma once

#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

using Defines = std::vector<std::string>;

// `name` as a plan, a network or a region of memory has it: "lanes_per_row".
inline std::string define_name(std::string_view name) {
  std::string upper = "ONCHIP_";
  for (const char c : name) {
    upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return upper;
}

inline void define(Defines& defines, std::string_view name, std::int64_t value) {
  defines.push_back(define_name(name) + "=" + std::to_string(value));
}

}  // namespace onchip
