// SPDX-License-Identifier: Apache-2.0
// JSON whose members stay in the order in which they are written.
#pragma once

#include <nlohmann/json.hpp>

namespace onchip {

using Json = nlohmann::ordered_json;

}  // namespace onchip
