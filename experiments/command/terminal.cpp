// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace onchip {
namespace {

// Calls `use` with every line, without its end.
void for_each_line(std::string_view text, auto&& use) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    use(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// Where what does not fit goes on: below the last column, if text is all that is left, and it has room there.
std::size_t hanging_indent(std::string_view line, std::size_t columns) {
  const std::size_t gap = line.rfind("  "), column = gap == std::string_view::npos ? 0 : gap + 2;
  return column > 0 && column < columns * 2 / 3 ? column : 4;
}

std::string wrapped_line(std::string_view line, std::size_t columns) {
  std::string text;
  const std::size_t indent = hanging_indent(line, columns);
  std::size_t margin = 0;
  while (margin + line.size() > columns) {
    std::size_t end = line.rfind(' ', columns - margin);
    if (end == std::string_view::npos || line.find_first_not_of(' ') > end || (margin == 0 && end < indent)) {
      end = line.find(' ', columns - margin);  // a word that is wider
    }
    if (end == std::string_view::npos) {
      break;
    }
    const std::string_view head = line.substr(0, end);
    text += std::string(margin, ' ') + std::string(head.substr(0, head.find_last_not_of(' ') + 1)) + '\n';
    line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
    margin = indent;
  }
  return text + std::string(line.empty() ? 0 : margin, ' ') + std::string(line) + '\n';
}

}  // namespace

std::size_t terminal_columns() {
  if (::isatty(STDOUT_FILENO) != 1) {
    return 0;
  }
  const char* chosen = std::getenv("COLUMNS");
  if (const long columns = chosen ? std::strtol(chosen, nullptr, 10) : 0; columns > 0) {
    return static_cast<std::size_t>(columns);
  }
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool takes_colour(int descriptor) {
  const char *none = std::getenv("NO_COLOR"), *kind = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && !(none && *none) && kind != nullptr && std::string_view(kind) != "dumb";
}

std::string coloured(std::string_view text, Colour colour) {
  return "\033[" + std::to_string(static_cast<int>(colour)) + 'm' + std::string(text) + "\033[0m";
}

std::string wrapped(std::string_view text, std::size_t columns) {
  std::string result;
  for_each_line(text, [&](std::string_view line) { result += wrapped_line(line, columns); });
  return result;
}

std::string for_terminal(std::string_view text) {
  const std::size_t columns = terminal_columns();
  const std::string lines = columns > 0 ? wrapped(text, columns) : std::string(text);
  if (!takes_colour(STDOUT_FILENO)) {
    return lines;
  }
  std::string result;
  for_each_line(lines, [&](std::string_view line) {
    const std::size_t bar = std::min(line.find_last_not_of('#') + 1, line.size());
    const bool is_bad = line.find("does not fit") != std::string_view::npos || line.starts_with("Not even");
    if (result.empty()) {
      result += coloured(line, is_bad ? Colour::red : Colour::bold);
    } else {
      result += std::string(line.substr(0, bar)) + (bar < line.size() ? coloured(line.substr(bar), Colour::cyan) : "");
    }
    result += '\n';
  });
  return result;
}

}  // namespace onchip
