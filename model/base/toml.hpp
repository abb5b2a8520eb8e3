// SPDX-License-Identifier: Apache-2.0
// TOML files: chips and specs of sweeps.
#pragma once

#include "model/base/error.hpp"

#include <string>
#include <string_view>

// The parser is compiled in, so that the command needs no shared library. Its assertions
// are off, and not taken for granted either: bad TOML violates some that the code after them handles.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#undef TOML_HEADER_ONLY
#undef TOML_SHARED_LIB
#define TOML_HEADER_ONLY 1
#define TOML_MAX_NESTED_VALUES 8
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace onchip {

// Throws InputError with file, line and column for what is no TOML, for more than 1 MiB, strings of several lines,
// bytes beyond ASCII outside of comments, and more than 1000 dots in keys.
toml::table parse_toml(std::string_view text, std::string_view file_name);

// Throws InputError with file, line and column; nodes that the parser made itself have none, and get the first.
[[noreturn]] void fail_at(std::string_view file_name, const toml::source_region& place, std::string_view message);

// What `read()` refuses gets a place, unless it has one from farther within.
template <typename Read>
void at_place(std::string_view file_name, const toml::source_region& place, Read&& read) {
  try {
    read();
  } catch (const InputError& error) {
    if (std::string_view(error.what()).starts_with(std::string(file_name) + ":")) {
      throw;
    }
    fail_at(file_name, place, error.what());
  }
}

// In quotes; of one line and, as chip files are, of ASCII alone: a letter beyond it is a question mark.
std::string toml_string(std::string_view text);

}  // namespace onchip
