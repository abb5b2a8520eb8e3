// SPDX-License-Identifier: Apache-2.0
// A chip file with some of its numbers replaced and everything else, comments included, as it was.
#pragma once

#include "model/chip/chip.hpp"

#include <span>
#include <string>
#include <string_view>

namespace onchip {

struct Replacement {
  std::string key;        // "timing.lds_latency"
  double value = 0;       // base units
  double half_width = 0;  // of the 95 % interval; 0: no interval
  std::string source;
};

// `text`: a valid chip file. Each key's line `key = { ... }` in its table gets the new value, in the unit that it had,
// the interval and the source; what follows the closing brace stays. Throws InputError, naming the key and
// `file_name`, if a key has no such line or its value is none that the key can have.
std::string rewrite_chip(std::string_view text, std::string_view file_name, std::span<const Replacement> replacements);

}  // namespace onchip
