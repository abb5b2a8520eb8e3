// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/cubin_cache.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

namespace onchip {
namespace {

constexpr std::string_view kMagic = "onchip cubin 3\n";
constexpr std::size_t kHashDigits = 16;

}  // namespace

std::string hash_text(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  }
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; hash >>= 4) {
    text[i] = "0123456789abcdef"[hash & 15];
  }
  return text;
}

std::optional<CacheEntry> load_cubin(const std::filesystem::path& path, std::string_view key) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return std::nullopt;
  }
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.size() < kMagic.size() + kHashDigits || !bytes.starts_with(kMagic)) {
    return std::nullopt;
  }
  const std::string_view body = std::string_view(bytes).substr(0, bytes.size() - kHashDigits);
  if (hash_text(body) != std::string_view(bytes).substr(body.size())) {
    return std::nullopt;
  }
  const std::size_t line_end = std::min(body.find('\n', kMagic.size()), body.size() - 1);
  std::istringstream header(std::string(body.substr(kMagic.size(), line_end - kMagic.size())));
  CacheEntry entry;
  std::size_t key_size = 0, cubin_size = 0;
  header >> entry.resources.registers >> entry.resources.spill_bytes >> entry.resources.stack_bytes >> entry.attempt >>
      key_size >> cubin_size;
  const std::string_view rest = body.substr(line_end + 1);
  if (!header || key_size != key.size() || key_size > rest.size() || cubin_size != rest.size() - key_size ||
      rest.substr(0, key_size) != key) {
    return std::nullopt;
  }
  entry.cubin.assign(rest.begin() + static_cast<std::ptrdiff_t>(key_size), rest.end());
  return entry;
}

void store_cubin(const std::filesystem::path& path, std::string_view key, const CacheEntry& entry) {
  static std::atomic<unsigned> count{0};
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  std::filesystem::path temporary = path;
  temporary += "." + std::to_string(getpid()) + "." + std::to_string(count++) + ".tmp";
  std::ostringstream text;
  text << kMagic << entry.resources.registers << ' ' << entry.resources.spill_bytes << ' '
       << entry.resources.stack_bytes << ' ' << entry.attempt << ' ' << key.size() << ' ' << entry.cubin.size() << '\n'
       << key;
  text.write(entry.cubin.data(), static_cast<std::streamsize>(entry.cubin.size()));
  std::ofstream file(temporary, std::ios::binary);
  file << text.view() << hash_text(text.view());
  file.close();
  std::error_code error;
  if (file) {
    std::filesystem::rename(temporary, path, error);
  }
  if (!file || error) {
    std::filesystem::remove(temporary, ignored);
  }
}

}  // namespace onchip
