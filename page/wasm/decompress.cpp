// SPDX-License-Identifier: Apache-2.0
// Stands for model/base/decompress.cpp: the page is linked without zlib, liblzma and libzstd.
#include "model/base/decompress.hpp"

#include "model/base/error.hpp"

namespace onchip {

std::string_view compression_of(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b")           ? "gzip"
         : bytes.starts_with("\x28\xb5\x2f\xfd") ? "zstd"
         : bytes.starts_with("\3757zXZ")         ? "xz"
                                                 : "";
}

std::string decompress(std::string_view packed, std::string_view file_name, std::size_t) {
  if (const std::string_view packing = compression_of(packed); !packing.empty()) {
    throw InputError(std::string(file_name) + ": " + std::string(packing) +
                     " is not unpacked in a page: expected a plain file");
  }
  return std::string(packed);
}

}  // namespace onchip
