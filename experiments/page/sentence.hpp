// SPDX-License-Identifier: Apache-2.0
// What a result says, in a sentence.
#pragma once

#include "model/answer/json.hpp"
#include "model/base/table.hpp"

#include <string>

namespace onchip {

struct Summary {
  std::string kind;      // "what-if"
  std::string sentence;  // "" where the rows say it themselves
};

Summary summary(const Json& answer);
Summary summary(const Table& rows);

}  // namespace onchip
