// SPDX-License-Identifier: Apache-2.0
// The one exception that bad input raises. Its text is one line that a user can act on:
//   h200.toml:14:3: unknown key 'smem.bankz'; did you mean 'smem.banks'?
// Asserts are for our own bugs only; "does not fit" is a result, never an error.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace onchip {

// Whatever its message quotes comes out on one printable line of at most 3000 bytes.
class InputError : public std::runtime_error {
 public:
  explicit InputError(const std::string& message);
  // "file:line:column: message"; line and column count from 1.
  InputError(std::string_view file, long line, long column, std::string_view message);
};

// At most so many bytes of a text, on one line: printable UTF-8 as it is, other bytes as \xNN. Controls and marks that
// turn the direction of what follows them are not printable.
std::string one_line(std::string_view text, std::size_t most = 300);

// 'word' on one line, cut after 64 bytes.
std::string in_quotes(std::string_view word);

// "; did you mean 'X'?" for the candidate nearest to `word` in edit distance, or "" if none is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace onchip
