// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/significant_text.hpp"

#include <algorithm>
#include <optional>
#include <sstream>
#include <vector>

namespace onchip {
namespace {

std::string_view trimmed(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) {
    return {};
  }
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

// Up to a comment that is not inside a string.
std::string_view without_comment(std::string_view line) {
  bool in_string = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && line.substr(i, 2) == "//") {
      return line.substr(0, i);
    }
  }
  return line;
}

std::vector<std::string> words_of(std::string_view line) {
  std::istringstream text{std::string(line)};
  std::vector<std::string> words;
  for (std::string word; text >> word;) {
    words.push_back(word);
  }
  return words;
}

std::optional<std::string_view> value_of(std::string_view name, std::span<const std::string> defines) {
  for (const std::string_view define : defines) {
    const std::size_t equals = define.find('=');
    if (define.substr(0, equals) == name) {
      return equals == std::string_view::npos ? "1" : define.substr(equals + 1);
    }
  }
  return std::nullopt;
}

// Of a line that begins a conditional: whether it holds, if that is known.
std::optional<bool> holds(const std::vector<std::string>& words, std::span<const std::string> defines) {
  if (words.size() == 2 && (words[0] == "#ifdef" || words[0] == "#ifndef")) {
    return value_of(words[1], defines).has_value() == (words[0] == "#ifdef");
  }
  if (words.size() == 4 && words[0] == "#if" && (words[2] == "==" || words[2] == "!=")) {
    if (const auto value = value_of(words[1], defines)) {
      return (*value == words[3]) == (words[2] == "==");
    }
  }
  return std::nullopt;
}

}  // namespace

std::string significant_text(std::string_view source, std::span<const std::string> defines) {
  struct Conditional {
    std::optional<bool> holds;  // of the present branch; nothing: all that follows stays
    bool has_held = false;      // an earlier branch
    bool is_kept() const { return holds.value_or(true); }
  };
  std::vector<Conditional> open;
  std::string text;
  while (!source.empty()) {
    const std::size_t end = std::min(source.find('\n'), source.size());
    const std::string_view line = trimmed(without_comment(source.substr(0, end)));
    source.remove_prefix(std::min(end + 1, source.size()));
    bool is_resolved = false;  // the line is of a conditional that is
    if (line.starts_with("#if")) {
      open.push_back({holds(words_of(line), defines)});
      is_resolved = open.back().holds.has_value();
    } else if (!open.empty() && open.back().holds && (line == "#else" || line.starts_with("#elif"))) {
      Conditional& of = open.back();
      of.has_held = of.has_held || *of.holds;
      if (of.has_held) {
        of.holds = false;
      } else {
        of.holds = line == "#else" ? std::optional(true) : std::nullopt;
      }
      is_resolved = of.holds.has_value();
    } else if (!open.empty() && line == "#endif") {
      is_resolved = open.back().holds.has_value();
      open.pop_back();
    }
    const bool is_kept = std::all_of(open.begin(), open.end(), [](const Conditional& c) { return c.is_kept(); });
    if (is_kept && !is_resolved && !line.empty()) {
      text.append(line) += '\n';
    }
  }
  return text;
}

}  // namespace onchip
