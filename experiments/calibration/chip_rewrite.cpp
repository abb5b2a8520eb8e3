// SPDX-License-Identifier: Apache-2.0
#include "experiments/calibration/chip_rewrite.hpp"

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/table.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {
namespace {

constexpr int kDigits = 4;  // of values and bounds: no measurement here is better

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// A TOML basic string; the reader takes ASCII only.
std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') {
      result += '\\';
    }
    result += character >= 0x20 && character < 0x7f ? character : ' ';
  }
  return result + '"';
}

// The place behind the brace that closes the inline table of `line`, or npos.
std::size_t behind_table(std::string_view line) {
  char quote = 0;
  int depth = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char character = line[i];
    if (quote) {
      if (character == '\\' && quote == '"') {
        ++i;
      } else if (character == quote) {
        quote = 0;
      }
    } else if (character == '"' || character == '\'') {
      quote = character;
    } else if (character == '#') {
      break;
    } else if (character == '{') {
      ++depth;
    } else if (character == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

std::string table_text(const Replacement& replacement, const ChipKey& row, std::string_view unit) {
  const double factor = unit_factor(row.dimension, unit);
  const double value = rounded(replacement.value / factor, kDigits);
  std::string text = "{ value = " + format_number(value);
  if (row.dimension != Dimension::count) {
    text += ", unit = " + toml_string(unit);
  }
  if (replacement.half_width > 0) {
    const double half_width = replacement.half_width / factor;
    // Rounding must not push the value out of its interval, nor the interval out of what the key allows.
    const double low = std::clamp(rounded(value - half_width, kDigits), row.minimum / factor, value);
    const double high = std::clamp(rounded(value + half_width, kDigits), value, row.maximum / factor);
    text += ", interval = [" + format_number(low) + ", " + format_number(high) + "]";
  }
  return text + ", source = " + toml_string(replacement.source) + " }";
}

}  // namespace

std::string rewrite_chip(std::string_view text, std::string_view file_name, std::span<const Replacement> replacements) {
  const ChipFile before = load_chip_text(text, file_name);
  std::string result, table;
  std::vector<bool> done(replacements.size());
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const std::string_view code = trim(line);
    std::string new_line(line);
    if (code.starts_with('[')) {
      table = trim(code.substr(1, code.find(']') - 1));
    } else if (const std::size_t equals = line.find('='); equals != std::string_view::npos && !code.starts_with('#')) {
      const std::string key = table + "." + std::string(trim(line.substr(0, equals)));
      const auto found = std::ranges::find(replacements, key, &Replacement::key);
      const std::size_t behind = behind_table(line);
      if (found != replacements.end() && behind != std::string_view::npos) {
        const ChipKey& row = *std::ranges::find(chip_keys(), key, &ChipKey::key);
        new_line = std::string(line.substr(0, equals)) + "= " +
                   table_text(*found, row, before.provenance.find(key)->second.unit) + std::string(line.substr(behind));
        done[static_cast<std::size_t>(found - replacements.begin())] = true;
      }
    }
    result += new_line;
    if (end < text.size()) {
      result += '\n';
    }
    begin = end + 1;
  }
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (!done[i]) {
      throw InputError(std::string(file_name) + ": no line '" + replacements[i].key +
                       " = { ... }' of its own to replace");
    }
  }
  load_chip_text(result, std::string(file_name) + " with calibrated numbers");  // proves that it is valid
  return result;
}

}  // namespace onchip
