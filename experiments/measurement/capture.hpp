// SPDX-License-Identifier: Apache-2.0
// The accesses to shared memory of one step, as an instrumented kernel wrote them down: on the current device, or
// interpreted.
#pragma once

#include "model/families/layout.hpp"
#include "sim/trace/trace.hpp"

#include <vector>

namespace onchip {

// [SMs]. Clocks are those of each SM, from the warp's first access on. Throws InputError for plans that cannot
// be captured.
std::vector<BlockTrace> capture_step(const Layout& layout);

// The same of the kernel executed on the CPU (interpret.hpp); clocks then count instructions.
std::vector<BlockTrace> capture_interpreted_step(const Layout& layout);

}  // namespace onchip
