// SPDX-License-Identifier: Apache-2.0
#include "kernels/cubin.hpp"

#include "kernels/device.hpp"

#include <elf.h>

#include <cstring>
#include <string>

namespace onchip {
namespace {

// Reads structures out of the file, each at any byte.
class ElfFile {
 public:
  explicit ElfFile(std::span<const char> bytes) : bytes_(bytes) {}

  template <typename T>
  T at(std::uint64_t offset) const {
    T value;
    require(offset <= bytes_.size() && sizeof(T) <= bytes_.size() - offset);
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::string_view text(std::uint64_t offset) const {
    require(offset < bytes_.size());
    const std::string_view rest(bytes_.data() + offset, bytes_.size() - offset);
    require(rest.find('\0') != std::string_view::npos);
    return rest.substr(0, rest.find('\0'));
  }
  static void require(bool whole) {
    if (!whole) {
      throw CudaError("the cubin is torn");
    }
  }

 private:
  std::span<const char> bytes_;
};

}  // namespace

std::int64_t code_bytes(std::span<const char> cubin, std::string_view kernel) {
  const ElfFile file(cubin);
  const auto header = file.at<Elf64_Ehdr>(0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) {
    throw CudaError("the cubin is no 64-bit ELF file");
  }
  const auto section = [&](std::uint64_t i) {
    ElfFile::require(i < header.e_shnum);
    return file.at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
  };
  const std::uint64_t names = section(header.e_shstrndx).sh_offset;
  const std::string wanted = ".text." + std::string(kernel);
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    if (const Elf64_Shdr candidate = section(i); file.text(names + candidate.sh_name) == wanted) {
      return static_cast<std::int64_t>(candidate.sh_size);
    }
  }
  throw CudaError("the cubin has no kernel '" + std::string(kernel) + "'");
}

}  // namespace onchip
