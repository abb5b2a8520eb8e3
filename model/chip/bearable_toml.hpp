// SPDX-License-Identifier: Apache-2.0
// A copy of a TOML text without what toml++ 3.3 does not bear although it should: it nests one table per dot, destroys
// them recursively and searches them one by one; and where it looks for white space a character outside ASCII is
// undefined behaviour in it.
#pragma once

#include <string>
#include <string_view>

namespace onchip {

// Throws InputError, with its place in the file, for what no chip file needs: strings of several lines, more than 1000
// dots, characters outside ASCII.
std::string bearable_toml(std::string_view text, std::string_view file_name);

}  // namespace onchip
