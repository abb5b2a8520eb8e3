// SPDX-License-Identifier: Apache-2.0
// Files as people have them: plain, or compressed by gzip, xz or zstd, told apart by their first bytes. They are read
// and not mapped: a file that becomes shorter meanwhile is an error, where a mapped one would end the process.
#pragma once

#include "model/base/error.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace onchip {

// What a compressed file may take in memory, by its own size: more than weights in any of our formats need, as a rule.
// A larger one has to be unpacked by hand.
constexpr std::uint64_t most_unpacked_bytes(std::uint64_t packed) {
  return (std::uint64_t{64} << 20) + 64 * packed;
}

struct InMemory {
  std::string_view bytes;  // of the caller
};

// Throws InputError if the file cannot be read, is not a regular file, or becomes shorter, and as decompress() does.
class InputFile {
 public:
  // most_bytes: that come out of a compressed file; 0: most_unpacked_bytes() of its size.
  explicit InputFile(const std::filesystem::path& file, std::uint64_t most_bytes = 0);
  explicit InputFile(InMemory file) : bytes_(file.bytes), size_(bytes_.size()) {}
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::uint64_t size() const { return size_; }  // unpacked
  // A part, by several threads if need be: a checkpoint of many gigabytes costs only the tensors that are read.
  std::string read(std::uint64_t begin, std::uint64_t bytes) const;
  // All, which is then kept.
  std::string_view bytes();

 private:
  std::string name_, kept_;
  std::string_view bytes_;
  int descriptor_ = -1;  // of a file that is not kept
  std::uint64_t size_ = 0;
};

}  // namespace onchip
