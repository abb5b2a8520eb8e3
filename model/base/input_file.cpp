// SPDX-License-Identifier: Apache-2.0
#include "model/base/input_file.hpp"

#include "model/base/decompress.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace onchip {

InputFile::InputFile(const std::filesystem::path& file, std::uint64_t most_bytes) : name_(file.string()) {
  // Non-blocking: opening a pipe must not wait for a writer.
  descriptor_ = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  const bool is_open = descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0;
  if (!is_open || !S_ISREG(status.st_mode)) {
    const std::string problem = !is_open                  ? std::strerror(errno)
                                : S_ISDIR(status.st_mode) ? "it is a directory"
                                                          : "it is not a regular file";
    ::close(descriptor_);
    throw InputError(name_ + ": cannot read the file: " + problem);
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  try {
    constexpr std::uint64_t kMagicBytes = 8;
    if (!compression_of(read(0, std::min(kMagicBytes, size_))).empty()) {
      kept_ = decompress(read(0, size_), name_, most_bytes > 0 ? most_bytes : most_unpacked_bytes(size_));
      ::close(descriptor_);
      descriptor_ = -1;
      bytes_ = kept_;
      size_ = kept_.size();
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

std::string InputFile::read(std::uint64_t begin, std::uint64_t bytes) const {
  if (descriptor_ < 0) {
    return std::string(bytes_.substr(begin, bytes));
  }
  std::string part(bytes, '\0');
  for (std::uint64_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(descriptor_, part.data() + done, bytes - done, static_cast<off_t>(begin + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      throw InputError(name_ + ": cannot read the file: " +
                       (got < 0 ? std::strerror(errno) : "it became shorter while it was read"));
    }
    done += static_cast<std::uint64_t>(got);
  }
  return part;
}

std::string_view InputFile::bytes() {
  if (descriptor_ >= 0) {
    kept_ = read(0, size_);
    bytes_ = kept_;
    ::close(descriptor_);
    descriptor_ = -1;
  }
  return bytes_;
}

}  // namespace onchip
