// SPDX-License-Identifier: Apache-2.0
#include "model/base/units.hpp"

#include "model/base/error.hpp"
#include "model/base/joined.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>
#include <vector>

namespace onchip {
namespace {

struct Unit {
  Dimension dimension;
  std::string_view name;
  double factor;
};

// The first unit of each dimension is its base unit.
constexpr std::array kUnits{
    Unit{Dimension::count, "1", 1},
    Unit{Dimension::bytes, "B", 1},
    Unit{Dimension::bytes, "kB", 1e3},
    Unit{Dimension::bytes, "MB", 1e6},
    Unit{Dimension::bytes, "GB", 1e9},
    Unit{Dimension::bytes, "KiB", 1024},
    Unit{Dimension::bytes, "MiB", 1024.0 * 1024},
    Unit{Dimension::bytes, "GiB", 1024.0 * 1024 * 1024},
    Unit{Dimension::hertz, "Hz", 1},
    Unit{Dimension::hertz, "kHz", 1e3},
    Unit{Dimension::hertz, "MHz", 1e6},
    Unit{Dimension::hertz, "GHz", 1e9},
    Unit{Dimension::seconds, "s", 1},
    Unit{Dimension::seconds, "ms", 1e-3},
    Unit{Dimension::seconds, "us", 1e-6},
    Unit{Dimension::seconds, "ns", 1e-9},
    Unit{Dimension::cycles, "cycles", 1},
    Unit{Dimension::cycles, "cycle", 1},
    Unit{Dimension::bytes_per_second, "B/s", 1},
    Unit{Dimension::bytes_per_second, "MB/s", 1e6},
    Unit{Dimension::bytes_per_second, "GB/s", 1e9},
    Unit{Dimension::bytes_per_second, "TB/s", 1e12},
    Unit{Dimension::bytes_per_cycle, "B/cycle", 1},
};

// "B, kB, MB or GB"
std::string units_of(Dimension dimension) {
  std::vector<std::string_view> names;
  for (const Unit& unit : kUnits) {
    if (unit.dimension == dimension) {
      names.push_back(unit.name);
    }
  }
  return joined(names, ", ", " or ");
}

}  // namespace

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string_view base_unit(Dimension dimension) {
  for (const Unit& unit : kUnits) {
    if (unit.dimension == dimension) {
      return unit.name;
    }
  }
  return "";
}

double unit_factor(Dimension dimension, std::string_view unit) {
  for (const Unit& candidate : kUnits) {
    if (candidate.dimension == dimension && candidate.name == unit) {
      return candidate.factor;
    }
  }
  throw InputError("unit " + in_quotes(unit) + " does not fit: expected " + units_of(dimension));
}

double parse_quantity(std::string_view text, Dimension dimension) {
  const std::string_view trimmed = without_blanks(text);
  double number = 0;
  const auto [end, problem] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  if (problem == std::errc::result_out_of_range) {
    throw InputError("number " + in_quotes(trimmed) + " is too large or too small to represent");
  }
  if (problem != std::errc{}) {
    throw InputError("found " + in_quotes(text) + ": expected a number" +
                     (dimension == Dimension::count ? "" : " and a unit, " + units_of(dimension)));
  }
  const std::string_view unit = without_blanks(trimmed.substr(static_cast<std::size_t>(end - trimmed.data())));
  if (!std::isfinite(number)) {
    throw InputError("number " + in_quotes(trimmed) + " is not finite");
  }
  if (unit.empty()) {
    if (dimension != Dimension::count && dimension != Dimension::cycles) {
      throw InputError("number " + in_quotes(trimmed) + " has no unit: expected " + units_of(dimension));
    }
    return number;
  }
  const double value = number * unit_factor(dimension, unit);
  if (!std::isfinite(value)) {
    throw InputError("number " + in_quotes(trimmed) + " is too large or too small to represent");
  }
  return value;
}

std::string format_number(double number) {
  std::array<char, 64> buffer;
  const bool whole = std::trunc(number) == number && std::abs(number) < 1e15;
  const auto result =
      whole ? std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::fixed, 0)
            : std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return {buffer.data(), result.ptr};
}

std::string fixed(double value, int digits) {
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}

std::string significant(double value, int digits) {
  if (std::isnan(value)) {
    return "";
  }
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
  return buffer;
}

// Without text where a quotient of two exact numbers is the nearest one to the decimal, and no tie is near.
double rounded(double value, int digits) {
  constexpr int kMostDigits = 9, kMostTens = 22;  // 10^22 is exact
  constexpr double kNearTie = 1e-3;
  static constexpr auto kTens = [] {
    std::array<double, kMostTens + 1> tens{1};
    for (std::size_t i = 1; i < tens.size(); ++i) {
      tens[i] = 10 * tens[i - 1];
    }
    return tens;
  }();
  const double size = std::abs(value);
  if (digits <= kMostDigits && size > 1e-12 && size < 1e15) {
    const int ten = digits - 1 - static_cast<int>(std::floor(std::log10(size)));
    const double power = kTens[static_cast<std::size_t>(std::abs(ten))],
                 scaled = ten >= 0 ? value * power : value / power;
    const double whole = std::nearbyint(scaled);
    if (std::abs(std::abs(scaled - whole) - 0.5) > kNearTie) {
      return ten >= 0 ? whole / power : whole * power;
    }
  }
  return std::isfinite(value) ? std::strtod(significant(value, digits).c_str(), nullptr) : value;
}

}  // namespace onchip
