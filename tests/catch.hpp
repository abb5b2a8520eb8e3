// SPDX-License-Identifier: Apache-2.0
// Catch2 2.13 (Debian 12) and 3 (Ubuntu 24.04) under one name: Approx, and Catch::Matchers::Contains of a string, are
// what they are in version 2.
#pragma once

#include <string_view>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

#include <string>

using Catch::Approx;
namespace Catch::Matchers {
// Version 3 has templates of this name, for ranges.
inline auto Contains(const char* part) {
  return ContainsSubstring(part);
}
inline auto Contains(std::string part) {
  return ContainsSubstring(part);
}
}  // namespace Catch::Matchers
#else
#include <catch2/catch.hpp>
#endif

namespace onchip {

inline bool says(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace onchip
