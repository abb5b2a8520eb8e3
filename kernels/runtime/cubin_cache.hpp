// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk, each in a file of its own:
//   "onchip cubin 3\n", "registers spill_bytes stack_bytes attempt key_size cubin_size\n", key, cubin, and the hash of
//   all that comes before it
#pragma once

#include "kernels/runtime/compiler.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// FNV-1a, 64 bits, as 16 hex digits. Not a defence against forgery: a hit also compares the whole key.
std::string hash_text(std::string_view bytes);

struct CacheEntry {
  std::vector<char> cubin;
  ResourceReport resources;
  std::size_t attempt = 0;  // of those that the compiler was asked for, the one that made it
};

// Nothing if there is no such file, it is torn, or of another key.
std::optional<CacheEntry> load_cubin(const std::filesystem::path& path, std::string_view key);

// Written beside its final place and renamed, so that a reader sees a whole file or none. Failures are no error.
void store_cubin(const std::filesystem::path& path, std::string_view key, const CacheEntry& entry);

}  // namespace onchip
