// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/cubin_cache.hpp"

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <sstream>
#include <system_error>
#include <utility>

namespace onchip {
namespace {

constexpr std::string_view kMagic = "onchip cache 1\n";
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

bool is_cached(const std::filesystem::path& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none);
}

void touch(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now(), ignored);
}

void make_room(const std::filesystem::path& directory, std::uintmax_t bytes) {
  using Time = std::filesystem::file_time_type;
  constexpr std::chrono::hours kLongestPause(1);  // of somebody who is still writing
  const Time now = Time::clock::now();
  std::error_code ignored;
  std::vector<std::pair<Time, std::filesystem::path>> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const std::filesystem::path& path = entry.path();
    constexpr std::array<std::string_view, 4> kOurs{".cubin", ".ptx", ".plan", ".tmp"};
    if (!is_cached(path) || std::ranges::find(kOurs, path.extension().string()) == kOurs.end()) {
      continue;
    }
    const bool is_temporary = path.extension() == ".tmp";
    const Time written = entry.last_write_time(ignored);
    if (is_temporary && now - written > kLongestPause) {
      std::filesystem::remove(path, ignored);
      continue;
    }
    bytes += entry.file_size(ignored);
    if (!is_temporary) {
      files.emplace_back(written, path);
    }
  }
  std::ranges::sort(files);
  for (auto file = files.begin(); file != files.end() && bytes > kMostCachedBytes; ++file) {
    bytes -= std::filesystem::file_size(file->second, ignored);
    std::filesystem::remove(file->second, ignored);
  }
}

std::optional<std::string> load_cached(const std::filesystem::path& path, std::string_view key) {
  std::string bytes;
  try {
    bytes = InputFile(path).bytes();
  } catch (const InputError&) {
    return std::nullopt;
  }
  if (bytes.size() < kMagic.size() + kHashDigits || !bytes.starts_with(kMagic)) {
    return std::nullopt;
  }
  const std::string_view body = std::string_view(bytes).substr(0, bytes.size() - kHashDigits);
  if (hash_text(body) != std::string_view(bytes).substr(body.size())) {
    return std::nullopt;
  }
  const std::size_t line_end = std::min(body.find('\n', kMagic.size()), body.size() - 1);
  std::istringstream header(std::string(body.substr(kMagic.size(), line_end - kMagic.size())));
  std::size_t key_size = 0, value_size = 0;
  header >> key_size >> value_size;
  const std::string_view rest = body.substr(line_end + 1);
  if (!header || key_size != key.size() || key_size > rest.size() || value_size != rest.size() - key_size ||
      rest.substr(0, key_size) != key) {
    return std::nullopt;
  }
  touch(path);
  return std::string(rest.substr(key_size));
}

void store_cached(const std::filesystem::path& path, std::string_view key, std::string_view value) {
  std::string text(kMagic);
  text.append(std::to_string(key.size())).append(" ").append(std::to_string(value.size())).append("\n");
  text.append(key).append(value);
  text += hash_text(text);
  store_cached(path, text.size(), [&](OutputFile& file) { file.write(text); });
}

void store_cached(const std::filesystem::path& path, std::uintmax_t bytes,
                  const std::function<void(OutputFile&)>& write) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !is_cached(path)) {
    return;
  }
  std::filesystem::create_directories(path.parent_path(), ignored);
  constexpr std::uintmax_t kBetween = kMostCachedBytes / 64;  // looking at all files takes a while
  static std::atomic<std::uintmax_t> since = kBetween;
  if ((since += bytes) > kBetween) {
    since = 0;
    make_room(path.parent_path(), bytes);
  }
  try {
    OutputFile file(path);
    write(file);
    file.commit(/*synced=*/false);
  } catch (const InputError&) {  // as said
  }
}

std::optional<CacheEntry> load_cubin(const std::filesystem::path& path, std::string_view key) {
  const std::optional<std::string> value = load_cached(path, key);
  const std::size_t line_end = value ? value->find('\n') : std::string::npos;
  if (line_end == std::string::npos) {
    return std::nullopt;
  }
  std::istringstream header(value->substr(0, line_end));
  CacheEntry entry;
  header >> entry.resources.registers >> entry.resources.spill_bytes >> entry.resources.stack_bytes >> entry.attempt;
  if (!header) {
    return std::nullopt;
  }
  entry.cubin.assign(value->begin() + static_cast<std::ptrdiff_t>(line_end) + 1, value->end());
  return entry;
}

void store_cubin(const std::filesystem::path& path, std::string_view key, const CacheEntry& entry) {
  std::ostringstream value;
  value << entry.resources.registers << ' ' << entry.resources.spill_bytes << ' ' << entry.resources.stack_bytes << ' '
        << entry.attempt << '\n';
  value.write(entry.cubin.data(), static_cast<std::streamsize>(entry.cubin.size()));
  store_cached(path, key, value.view());
}

}  // namespace onchip
