// SPDX-License-Identifier: Apache-2.0
// What the readers of users' weight files share: the file as read-only bytes, and its words quoted in messages.
#pragma once

#include "model/base/error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

namespace onchip {

// A file mapped into memory, so that a checkpoint of many gigabytes costs only the pages that are read. Throws
// InputError if the file cannot be read or is not a regular file.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& file) {
    const std::string name = file.string();
    // Non-blocking: opening a pipe must not wait for a writer.
    const int descriptor = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
      throw InputError(name + ": cannot read the file: " + std::strerror(errno));
    }
    struct stat status {};
    const char* problem = nullptr;
    if (::fstat(descriptor, &status) != 0) {
      problem = std::strerror(errno);
    } else if (S_ISDIR(status.st_mode)) {
      problem = "it is a directory";
    } else if (!S_ISREG(status.st_mode)) {
      problem = "it is not a regular file";
    } else if (status.st_size > 0) {
      size_ = static_cast<std::size_t>(status.st_size);
      data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
      if (data_ == MAP_FAILED) {
        problem = std::strerror(errno);
        data_ = nullptr;
      }
    }
    ::close(descriptor);
    if (problem) {
      throw InputError(name + ": cannot read the file: " + problem);
    }
  }
  ~MappedFile() {
    if (data_) {
      ::munmap(data_, size_);
    }
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(data_), data_ ? size_ : 0}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// 'word' on one line: bytes other than printable ASCII as \xNN, long words cut.
inline std::string in_quotes(std::string_view word) {
  constexpr std::size_t kLongest = 64;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "'";
  for (const char character : word.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= 0x20 && byte < 0x7f) {
      text += character;
    } else {
      text += "\\x";
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    }
  }
  return text + (word.size() > kLongest ? "...'" : "'");
}

}  // namespace onchip
