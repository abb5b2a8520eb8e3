// SPDX-License-Identifier: Apache-2.0
// TOML files: chips and specs of sweeps.
#pragma once

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

}  // namespace onchip
