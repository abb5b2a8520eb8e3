// SPDX-License-Identifier: Apache-2.0
// The questions of ask.hpp whose answers are rows.
#pragma once

#include "model/answer/json.hpp"
#include "model/chip/chip.hpp"

#include <string_view>

namespace onchip {

bool parse_rows(std::string_view text);                                    // "exact" or "expected", which is true
int whole(const Json& value, std::string_view name, int least, int most);  // a value of the key `name`
// All throw InputError.
Json ask_sweep(const ChipFile& chip, const Json& question);
Json ask_pareto(const ChipFile& chip, const Json& question);

}  // namespace onchip
