// SPDX-License-Identifier: Apache-2.0
// The words of a PTX text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onchip::ptx {

struct Token {
  enum class Kind : unsigned char { word, number, mark, end };
  Kind kind = Kind::end;
  std::string_view text;  // marks: one character
  unsigned line = 0, column = 0;
};

// Words are of letters, digits, '_', '$', '%', '.' and "::"; numbers begin with a digit. Comments are left out; the
// last token is the end. Throws InputError for any other character and for a comment that does not end.
std::vector<Token> split_tokens(std::string_view text, const std::string& name);

}  // namespace onchip::ptx
