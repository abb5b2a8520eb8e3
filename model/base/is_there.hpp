// SPDX-License-Identifier: Apache-2.0
// Whether there is a file or folder of a name that came in from outside.
#pragma once

#include <filesystem>
#include <system_error>

namespace onchip {

// Of a name that no file can have, such as one of 300 characters, there is none.
inline bool is_there(const std::filesystem::path& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

}  // namespace onchip
