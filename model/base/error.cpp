// SPDX-License-Identifier: Apache-2.0
#include "model/base/error.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace onchip {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& character : result) {
    if (character >= 'A' && character <= 'Z') {
      character = static_cast<char>(character - 'A' + 'a');
    }
  }
  return result;
}

// Insertions, deletions, substitutions and swaps of neighbours cost 1 each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    next[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      next[j + 1] = std::min({next[j] + 1, row[j + 1] + 1, row[j] + (a[i] == b[j] ? 0 : 1)});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j]) {
        next[j + 1] = std::min(next[j + 1], before[j - 1] + 1);
      }
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}

// Bytes of the printable character that a text begins with; 0: it begins with none.
std::size_t printable_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  if (byte(0) < 0x80) {
    return byte(0) >= 0x20 && byte(0) < 0x7f ? 1 : 0;
  }
  // The bits of the first byte that say how many follow, and the least character that needs as many.
  constexpr std::array<std::array<std::uint32_t, 3>, 3> kForms{
      {{0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}}};
  const auto form = std::ranges::find_if(kForms, [&](const auto& of) { return (byte(0) & of[0]) == of[1]; });
  if (form == kForms.end()) {
    return 0;
  }
  const std::size_t bytes = static_cast<std::size_t>(form - kForms.begin()) + 2;
  std::uint32_t character = byte(0) & ~(*form)[0];
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return 0;
    }
    character = character << 6 | (byte(i) & 0x3f);
  }
  // Controls; marks without width; ends of lines and directions; surrogates; the byte order mark; beyond Unicode.
  constexpr std::array<std::array<std::uint32_t, 2>, 7> kNot{{{0, 0x9f},
                                                              {0x200b, 0x200f},
                                                              {0x2028, 0x202e},
                                                              {0x2060, 0x206f},
                                                              {0xd800, 0xdfff},
                                                              {0xfeff, 0xfeff},
                                                              {0x110000, 0xffffffff}}};
  const bool is_not = std::ranges::any_of(kNot, [&](const auto& r) { return character >= r[0] && character <= r[1]; });
  return character < (*form)[2] || is_not ? 0 : bytes;
}

}  // namespace

InputError::InputError(const std::string& message) : std::runtime_error(one_line(one_line(message, 2000), 3000)) {}

InputError::InputError(std::string_view file, long line, long column, std::string_view message)
    : InputError(std::string(file) + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " +
                 std::string(message)) {}

std::string one_line(std::string_view text, std::size_t most) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string line;
  for (std::size_t at = 0; at < std::min(text.size(), most);) {
    if (const std::size_t bytes = printable_bytes(text.substr(at)); bytes > 0) {
      line += text.substr(at, bytes);
      at += bytes;
    } else {
      const auto byte = static_cast<unsigned char>(text[at++]);
      line += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return line;
}

std::string in_quotes(std::string_view word) {
  constexpr std::size_t kLongest = 64;
  return "'" + one_line(word, kLongest) + (word.size() > kLongest ? "...'" : "'");
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  // No name is long; a hostile word must not buy a quadratic search.
  constexpr std::size_t kLongestWord = 64;
  if (word.empty() || word.size() > kLongestWord) {
    return "";
  }
  const std::string typed = lower(word);
  const std::size_t limit = std::clamp<std::size_t>(typed.size() / 3, 1, 4);
  std::string_view best;
  std::size_t best_distance = limit + 1;
  bool best_is_prefix = false;
  for (const std::string_view candidate : candidates) {
    const std::string name = lower(candidate);
    const std::size_t distance = edit_distance(typed, name);
    // A name cut short ("h100" for "H100 SXM") is nearer than one with other letters ("A100").
    const bool is_prefix = typed.size() >= 3 && name.starts_with(typed);
    const bool nearer = is_prefix == best_is_prefix ? distance < best_distance : is_prefix;
    if ((is_prefix || distance <= limit) && nearer) {
      best = candidate;
      best_distance = distance;
      best_is_prefix = is_prefix;
    }
  }
  return best.empty() ? "" : "; did you mean " + in_quotes(best) + "?";
}

}  // namespace onchip
