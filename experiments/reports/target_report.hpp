// SPDX-License-Identifier: Apache-2.0
// What a chip must have at least to reach a target, in the three forms of an answer.
#pragma once

#include "experiments/command/output.hpp"

namespace onchip {

Report report_of(const TargetAnswer& answer);

}  // namespace onchip
