// SPDX-License-Identifier: Apache-2.0
#include "model/base/toml.hpp"

#include "model/base/error.hpp"

#include <algorithm>

namespace onchip {
namespace {

// A copy without what toml++ 3.3 does not bear although it should: it nests one table per dot, destroys them
// recursively and searches them one by one; and where it looks for white space a character outside ASCII is undefined
// behaviour in it.
std::string bearable(std::string_view text, std::string_view file_name) {
  constexpr int kMostDots = 1000;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string copy(text.substr(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0));
  long line = 1, column = 0;
  int dots = 0;
  bool in_string = false, in_comment = false;
  char quote = 0;
  for (std::size_t i = 0; i < copy.size(); ++i) {
    char& character = copy[i];
    ++column;
    const auto refuse = [&](std::string_view message) { throw InputError(file_name, line, column, message); };
    if (character == '\n' || character == '\r') {
      line += character == '\n' ? 1 : 0;
      column = 0;
      in_string = in_comment = false;
    } else if (static_cast<unsigned char>(character) >= 0x80) {
      if (!in_comment) {
        refuse("found byte " + in_quotes({&character, 1}) + " outside of comments: expected ASCII, \\uXXXX in strings");
      }
      character = '?';
    } else if (in_string) {
      if (character == quote) {
        in_string = false;
      } else if (character == '\\' && quote == '"' && i + 1 < copy.size() &&
                 (copy[i + 1] == '"' || copy[i + 1] == '\\')) {
        ++i;
        ++column;
      }
    } else if (!in_comment) {
      if (character == '"' || character == '\'') {
        if (copy.compare(i, 3, std::string(3, character)) == 0) {
          refuse("found a string of several lines: expected one line");
        }
        in_string = true;
        quote = character;
      } else if (character == '#') {
        in_comment = true;
      } else if (character == '.' && ++dots > kMostDots) {
        refuse("more than 1000 dots outside of strings: a key has at most one");
      }
    }
  }
  return copy;
}

}  // namespace

toml::table parse_toml(std::string_view text, std::string_view file_name) {
  constexpr std::size_t kLargest = std::size_t{1} << 20;
  if (text.size() > kLargest) {
    throw InputError(std::string(file_name) + ": " + std::to_string(text.size()) + " bytes: expected at most 1 MiB");
  }
  try {
    return toml::parse(std::string_view(bearable(text, file_name)), file_name);
  } catch (const toml::parse_error& error) {
    // "Error while parsing string: ..."
    constexpr std::string_view kPrefix = "Error while parsing ";
    std::string_view description = error.description();
    if (description.starts_with(kPrefix)) {
      description.remove_prefix(kPrefix.size());
    }
    fail_at(file_name, error.source(), "not valid TOML: " + one_line(description));
  }
}

void fail_at(std::string_view file_name, const toml::source_region& place, std::string_view message) {
  throw InputError(file_name, std::max<long>(1, place.begin.line), std::max<long>(1, place.begin.column), message);
}

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char character : text) {
    const bool is_plain = character >= 0x20 && character < 0x7f;
    result += (character == '"' || character == '\\' ? "\\" : "") + std::string(1, is_plain ? character : '?');
  }
  return result + '"';
}

}  // namespace onchip
