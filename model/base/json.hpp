// SPDX-License-Identifier: Apache-2.0
// JSON whose members stay in the order in which they are written.
#pragma once

#include "model/base/error.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace onchip {

using Json = nlohmann::ordered_json;

// What every text of others is parsed by: discarded (is_discarded()) for what is no JSON. Values within values are
// copied and printed by recursion: throws InputError, with `where`, for more than 100 within each other.
template <typename J = Json>
J parse_json(std::string_view text, std::string_view where) {
  constexpr int kMostDepth = 100;
  const auto check_depth = [&](int depth, nlohmann::detail::parse_event_t, const J&) {
    if (depth > kMostDepth) {
      throw InputError(std::string(where) + ": more than 100 brackets within each other");
    }
    return true;
  };
  return J::parse(text, check_depth, /*allow_exceptions=*/false);
}

}  // namespace onchip
