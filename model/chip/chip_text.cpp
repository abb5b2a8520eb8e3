// SPDX-License-Identifier: Apache-2.0
// Writing chip files.
#include "model/chip/chip.hpp"

#include <algorithm>

namespace onchip {
namespace {

// Of one line and, as chip files are, of ASCII alone: a letter beyond it is a question mark.
std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char character : text) {
    const bool is_plain = character >= 0x20 && character < 0x7f;
    result += (character == '"' || character == '\\' ? "\\" : "") + std::string(1, is_plain ? character : '?');
  }
  return result + '"';
}

}  // namespace

std::string chip_text(const ChipFile& file) {
  std::string text =
      "name = " + toml_string(file.chip.name) + "\narchitecture = " + toml_string(file.chip.architecture) + '\n';
  // All keys of a table stand together in a file; in the table of keys they need not.
  std::vector<std::string_view> tables;
  const auto table_of = [](const ChipKey& row) { return row.key.substr(0, row.key.find('.')); };
  for (const ChipKey& row : chip_keys()) {
    if (std::ranges::find(tables, table_of(row)) == tables.end()) {
      tables.push_back(table_of(row));
    }
  }
  for (const std::string_view table : tables) {
    text += "\n[" + std::string(table) + "]\n";
    for (const ChipKey& row : chip_keys()) {
      if (table_of(row) != table) {
        continue;
      }
      const Number& number = file.chip.*row.member;
      const Provenance& provenance = file.provenance.find(row.key)->second;
      std::string unit = provenance.unit;
      double factor = unit_factor(row.dimension, unit);
      if (number.value / factor * factor != number.value) {
        unit = base_unit(row.dimension);
        factor = 1;
      }
      text += std::string(row.key.substr(table.size() + 1)) + " = { value = " + format_number(number.value / factor);
      text += row.dimension == Dimension::count ? "" : ", unit = " + toml_string(unit);
      if (number.half_width > 0) {
        text += ", interval = [" + format_number(std::max(number.value - number.half_width, row.minimum) / factor) +
                ", " + format_number(std::min(number.value + number.half_width, row.maximum) / factor) + "]";
      }
      text += ", source = " + toml_string(provenance.source) + " }\n";
    }
  }
  return text;
}

}  // namespace onchip
