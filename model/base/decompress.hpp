// SPDX-License-Identifier: Apache-2.0
// Files as people have them: plain, or compressed by gzip, xz or zstd, told apart by their first bytes.
#pragma once

#include "model/base/input_file.hpp"

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace onchip {

// What comes out of one file may take so much memory; a larger one has to be unpacked by hand, and is then mapped.
inline constexpr std::size_t kMostUnpackedBytes = std::size_t{4} << 30;

// "gzip", "xz" or "zstd" by the first bytes; "" for anything else.
std::string_view compression_of(std::string_view bytes);

// The bytes that `packed` stands for: itself if nothing compressed it. Throws InputError for a stream that is cut off
// or broken, or holds more than `most_bytes`. `file_name` is for messages.
std::string decompress(std::string_view packed, std::string_view file_name,
                       std::size_t most_bytes = kMostUnpackedBytes);

// The bytes of a file: mapped as they are, or unpacked in memory. Throws InputError, as MappedFile and decompress do.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& file)
      : mapped_(file),
        is_packed_(!compression_of(mapped_.bytes()).empty()),
        unpacked_(is_packed_ ? decompress(mapped_.bytes(), file.string()) : "") {}

  std::string_view bytes() const { return is_packed_ ? std::string_view(unpacked_) : mapped_.bytes(); }

 private:
  MappedFile mapped_;
  bool is_packed_;
  std::string unpacked_;
};

}  // namespace onchip
