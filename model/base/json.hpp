// SPDX-License-Identifier: Apache-2.0
// JSON whose members stay in the order in which they are written.
#pragma once

#include <nlohmann/json.hpp>

#include <concepts>
#include <cstddef>
#include <limits>
#include <string_view>

namespace onchip {

using Json = nlohmann::ordered_json;

// Throws InputError, with `where`, for a text with more than 100 values within each other, which are copied and printed
// by recursion, a key that an object has twice, or an object of more than so many keys.
void check_json(std::string_view text, std::string_view where, std::size_t most_keys);

// What every text of others is parsed by: discarded (is_discarded()) for what is no JSON. Keys that stay in order are
// sought one after another, and therefore bounded.
template <typename J = Json>
J parse_json(std::string_view text, std::string_view where) {
  check_json(text, where, std::same_as<J, Json> ? 1000 : std::numeric_limits<std::size_t>::max());
  return J::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace onchip
