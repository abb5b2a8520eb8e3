// SPDX-License-Identifier: Apache-2.0
#include "experiments/calibration/chip_rewrite.hpp"

#include "model/base/error.hpp"
#include "model/base/toml.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr int kDigits = 4;  // of values and bounds: no measurement here is better

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
  const toml::table root = parse_toml(text, file_name);
  std::vector<std::size_t> lines{0};  // where each begins
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', end + 1)) {
    lines.push_back(end + 1);
  }
  const auto place = [&](const toml::source_position& of) { return lines[of.line - 1] + of.column - 1; };
  std::map<std::size_t, std::pair<std::size_t, std::string>, std::greater<>> edits;  // begin, from the last; end, text
  for (const Replacement& replacement : replacements) {
    const toml::node* const node = root.at_path(replacement.key).node();
    if (node == nullptr || !node->is_table()) {
      throw InputError(std::string(file_name) + ": no line '" + replacement.key + " = { ... }' of its own to replace");
    }
    const ChipKey& row = *std::ranges::find(chip_keys(), replacement.key, &ChipKey::key);
    edits[place(node->source().begin)] = {
        place(node->source().end), table_text(replacement, row, before.provenance.find(replacement.key)->second.unit)};
  }
  std::string result(text);
  for (const auto& [begin, edit] : edits) {
    result.replace(begin, edit.first - begin, edit.second);
  }
  load_chip_text(result, std::string(file_name) + " with calibrated numbers");  // proves that it is valid
  return result;
}

}  // namespace onchip
