// SPDX-License-Identifier: Apache-2.0
// What of a kernel's source makes a difference to its machine code.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace onchip {

// `source` without comments, indentation, empty lines, and what its conditionals leave out for these definitions
// ("NAME=VALUE"). Conditionals are resolved where they compare a defined name with a number (#if NAME == 3) or ask
// whether a name is defined (#ifdef NAME); everything inside others stays.
std::string significant_text(std::string_view source, std::span<const std::string> defines);

}  // namespace onchip
