// SPDX-License-Identifier: Apache-2.0
// A generated stream against one that an instrumented kernel wrote down (`measure --capture`): the accesses to shared
// memory of every warp, one after another, with their lanes and addresses. Nothing else is captured.
#pragma once

#include "sim/trace/trace.hpp"

#include <optional>
#include <string>

namespace onchip {

// Of the first access that differs: "warp 2, access 17: 4-byte shared_load of lane 3 at 512, captured at 516". Nothing
// if all are equal.
std::optional<std::string> first_difference(const BlockTrace& generated, const BlockTrace& captured);

}  // namespace onchip
