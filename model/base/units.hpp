// SPDX-License-Identifier: Apache-2.0
// Physical quantities as users write them: "512 KiB", "1.98 GHz", "132".
#pragma once

#include <string>
#include <string_view>

namespace onchip {

enum class Dimension {
  count,             // base unit "1"
  bytes,             // base unit "B"
  hertz,             // base unit "Hz"
  seconds,           // base unit "s"
  cycles,            // base unit "cycles"
  bytes_per_second,  // base unit "B/s"
  bytes_per_cycle,   // base unit "B/cycle"
};

std::string_view without_blanks(std::string_view text);  // without blanks and tabs around it

std::string_view base_unit(Dimension dimension);

// The factor from `unit` to the dimension's base unit, e.g. (bytes, "KiB") -> 1024. Throws InputError, naming the
// units that fit, if `unit` does not measure `dimension`.
double unit_factor(Dimension dimension, std::string_view unit);

// "<number> <unit>" -> base units; the unit may be left out for counts and cycles only. Throws InputError.
double parse_quantity(std::string_view text, Dimension dimension);

// The shortest text that reads back as the same number, without an exponent for whole numbers below 1e15.
std::string format_number(double number);

std::string fixed(double value, int digits);        // 1.93
std::string significant(double value, int digits);  // 0.00193; "" for NaN
double rounded(double value, int digits = 6);       // to significant digits, for output that people read, too

}  // namespace onchip
