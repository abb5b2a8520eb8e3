// SPDX-License-Identifier: Apache-2.0
#include "model/workload/recurrent.hpp"

#include "model/base/error.hpp"
#include "model/base/joined.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <cstdio>

namespace onchip {
namespace {

// Whatever the case of the letters: "LSTM".
bool is_alike(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

// The position in `table` of the row called `name`.
template <class Info, std::size_t size>
std::size_t parse_name(std::string_view what, std::string_view name, const std::array<Info, size>& table) {
  std::array<std::string_view, size> names;
  for (std::size_t i = 0; i < size; ++i) {
    if (is_alike(table[i].name, name)) {
      return i;
    }
    names[i] = table[i].name;
  }
  const std::string suggestion = did_you_mean(name, names);
  throw InputError("unknown " + std::string(what) + " " + in_quotes(name) +
                   (suggestion.empty() ? ": expected " + joined(names, ", ", " or ") : suggestion));
}

void check_range(std::string_view field, int value, int maximum) {
  if (value < 1 || value > maximum) {
    throw InputError(std::string(field) + " " + std::to_string(value) + " is out of range: expected 1 to " +
                     std::to_string(maximum));
  }
}

}  // namespace

Cell parse_cell(std::string_view name) {
  return static_cast<Cell>(parse_name("cell", name, kCells));
}

Precision parse_precision(std::string_view name) {
  return static_cast<Precision>(parse_name("precision", name, kPrecisions));
}

void check(const Recurrent& network) {
  check_range("hidden", network.hidden, kMaxHidden);
  check_range("batch", network.batch, kMaxBatch);
  check_range("steps", network.steps, 2147483647);
  if (!(network.density > 0 && network.density <= 1)) {  // NaN is out of range, too
    throw InputError("density " + format_number(network.density) +
                     " is out of range: expected a number above 0 and at most 1");
  }
}

std::string describe(const Recurrent& network) {
  std::array<char, 32> percent;
  std::snprintf(percent.data(), percent.size(), "%.4g", network.density * 100);
  return std::string(info(network.cell).name) + " H=" + std::to_string(network.hidden) +
         " B=" + std::to_string(network.batch) + " " + percent.data() + " % " +
         std::string(info(network.precision).name);
}

}  // namespace onchip
