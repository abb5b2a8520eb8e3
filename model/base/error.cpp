// SPDX-License-Identifier: Apache-2.0
#include "model/base/error.hpp"

#include <algorithm>
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

}  // namespace

InputError::InputError(std::string_view file, long line, long column, std::string_view message)
    : std::runtime_error(std::string(file) + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " +
                         std::string(message)) {}

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
  return best.empty() ? "" : "; did you mean '" + std::string(best) + "'?";
}

}  // namespace onchip
