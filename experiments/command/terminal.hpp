// SPDX-License-Identifier: Apache-2.0
// What people see on a terminal: lines no wider than it, and a few colours. Pipes and files get the text as it is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace onchip {

// COLUMNS, else what the terminal says; nothing (0) if the standard output is none.
std::size_t terminal_columns();

// Whether the file descriptor is a terminal that shows colours; not with NO_COLOR (no-color.org).
bool takes_colour(int descriptor);

enum class Colour { bold = 1, red = 31, cyan = 36 };
std::string coloured(std::string_view text, Colour colour);

// Wider lines go on below the start of their last column, and tables of many columns below themselves, with their first
// column again. Words stay whole.
std::string wrapped(std::string_view text, std::size_t columns);

// For the standard output: wrapped, the first line bold, or red where it says that something does not fit, bars cyan.
std::string for_terminal(std::string_view text);

}  // namespace onchip
