// SPDX-License-Identifier: Apache-2.0
// The folder of caches (cache_directory(), compiler.hpp). What was found at some cost lies there under its key, each in
// a file of its own; a compiled kernel is one:
//   "onchip cache 1\n", "key_size value_size\n", key, value, and the hash of all that comes before it
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "model/base/output_file.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// FNV-1a, 64 bits, as 16 hex digits. Not a defence against forgery: a hit also compares the whole key.
std::string hash_text(std::string_view bytes);

// All files of the folder together; those that were not used for longest make room.
inline constexpr std::uintmax_t kMostCachedBytes = std::uintmax_t{4} << 30;

bool is_cached(const std::filesystem::path& path);  // a folder or a pipe of that name is not
void touch(const std::filesystem::path& path);      // it was used
// Removes what is needed for so many more bytes, and what writers that were killed left.
void make_room(const std::filesystem::path& directory, std::uintmax_t bytes);
// Makes room and writes the file under a temporary name first, so that a reader sees a whole file or none. A failure is
// no error, nor is what lies there under this name and is no file: it is a miss.
void store_cached(const std::filesystem::path& path, std::uintmax_t bytes,
                  const std::function<void(OutputFile&)>& write);

// Nothing if there is no such file, it is torn, or of another key.
std::optional<std::string> load_cached(const std::filesystem::path& path, std::string_view key);
void store_cached(const std::filesystem::path& path, std::string_view key, std::string_view value);

// "registers spill_bytes stack_bytes attempt\n" and the cubin.
struct CacheEntry {
  std::vector<char> cubin;
  ResourceReport resources;
  std::size_t attempt = 0;  // of those that the compiler was asked for, the one that made it
};

std::optional<CacheEntry> load_cubin(const std::filesystem::path& path, std::string_view key);
void store_cubin(const std::filesystem::path& path, std::string_view key, const CacheEntry& entry);

}  // namespace onchip
