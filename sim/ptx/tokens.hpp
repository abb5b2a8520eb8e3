// SPDX-License-Identifier: Apache-2.0
// The words of a PTX text.
#pragma once

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
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

inline bool is_in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' || c == '.';
}

// Words are of letters, digits, '_', '$', '%', '.' and "::"; numbers begin with a digit. Comments are left out; the
// last token is the end. Throws InputError for any other character and for a comment that does not end.
inline std::vector<Token> split_tokens(std::string_view text, const std::string& name) {
  std::vector<Token> tokens;
  unsigned line = 1;
  std::size_t line_begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto column = static_cast<unsigned>(i - line_begin + 1);
    if (c == '\n') {
      ++line;
      line_begin = ++i;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++i;
    } else if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      const std::size_t end = text.find("*/", i + 2);
      if (end == std::string_view::npos) {
        throw InputError(name, line, column, "a comment does not end");
      }
      for (; i < end + 2; ++i) {
        if (text[i] == '\n') {
          ++line;
          line_begin = i + 1;
        }
      }
    } else if (c == '"') {  // of a pragma: nothing that changes results
      const std::size_t end = text.find_first_of("\"\n", i + 1);
      if (end == std::string_view::npos || text[end] != '"') {
        throw InputError(name, line, column, "a string does not end");
      }
      tokens.push_back({Token::Kind::word, text.substr(i, end + 1 - i), line, column});
      i = end + 1;
    } else if (is_in_word(c)) {
      const std::size_t begin = i;
      while (i < text.size() && (is_in_word(text[i]) || (text.substr(i, 2) == "::"))) {
        i += text[i] == ':' ? 2 : 1;
      }
      const bool is_number = std::isdigit(static_cast<unsigned char>(c)) != 0;
      tokens.push_back(
          {is_number ? Token::Kind::number : Token::Kind::word, text.substr(begin, i - begin), line, column});
    } else if (std::string_view("{}[](),;@!|+-=<>:").find(c) != std::string_view::npos) {
      tokens.push_back({Token::Kind::mark, text.substr(i, 1), line, column});
      ++i;
    } else {
      throw InputError(name, line, column, "unexpected " + in_quotes(text.substr(i, 1)));
    }
  }
  tokens.push_back({Token::Kind::end, "", line, static_cast<unsigned>(text.size() - line_begin + 1)});
  return tokens;
}

}  // namespace onchip::ptx
