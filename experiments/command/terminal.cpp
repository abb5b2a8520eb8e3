// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

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

std::string trimmed(std::string_view line) {
  return std::string(line.substr(0, line.find_last_not_of(' ') + 1));
}

// Where what does not fit goes on: below the last column, if text is all that is left, and it has room there.
std::size_t hanging_indent(std::string_view line, std::size_t columns) {
  const std::size_t gap = line.rfind("  "), column = gap == std::string_view::npos ? 0 : gap + 2;
  return column > 0 && column < columns * 2 / 3 ? column : 4;
}

std::string wrapped_line(std::string_view line, std::size_t columns) {
  line = line.substr(0, line.find_last_not_of(' ') + 1);  // blanks at its end are no text to wrap
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
    text += std::string(margin, ' ') + trimmed(line.substr(0, end)) + '\n';
    line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
    margin = indent;
  }
  return text + std::string(margin, ' ') + std::string(line) + '\n';
}

// Where columns begin that two blanks part in all lines.
std::vector<std::size_t> column_starts(const std::vector<std::string>& lines) {
  std::vector<std::size_t> starts;
  const auto blank = [&](std::size_t place) {
    return std::ranges::all_of(lines, [&](const auto& line) { return place >= line.size() || line[place] == ' '; });
  };
  const std::size_t widest = std::ranges::max(lines, {}, &std::string::size).size();
  for (std::size_t place = 2; place < widest; ++place) {
    if (blank(place - 2) && blank(place - 1) && !blank(place)) {
      starts.push_back(place);
    }
  }
  return starts;
}

// Lines without an empty one between them: a table that is too wide goes on below itself, with its first column again.
std::string wrapped_block(const std::vector<std::string>& lines, std::size_t columns) {
  const std::vector<std::size_t> starts = column_starts(lines);
  const auto beyond = std::ranges::find_if(starts, [&](std::size_t start) { return start > columns + 2; });
  const bool folds = lines.size() > 1 && starts.size() > 1 && starts.back() > columns * 2 / 3 &&
                     std::ranges::any_of(lines, [&](const auto& line) { return line.size() > columns; });
  const std::size_t cut = folds && beyond - starts.begin() > 1 ? *(beyond - 1) : 0;
  std::string text;
  std::vector<std::string> rest;
  for (const std::string& line : lines) {
    text += wrapped_line(std::string_view(line).substr(0, cut > 0 ? cut : line.size()), columns);
    rest.push_back((line + std::string(cut, ' ')).substr(0, starts.empty() ? 0 : starts.front()) +
                   (line.size() > cut ? line.substr(cut) : ""));
  }
  return cut == 0 ? text : text + '\n' + wrapped_block(rest, columns);
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
  std::vector<std::string> block;
  const auto end_block = [&] {
    result += block.empty() ? "" : wrapped_block(block, columns);
    block.clear();
  };
  for_each_line(text, [&](std::string_view line) {
    if (!line.empty()) {
      block.emplace_back(line);
      return;
    }
    end_block();
    result += '\n';
  });
  end_block();
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
