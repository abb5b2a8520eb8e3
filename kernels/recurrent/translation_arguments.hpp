// SPDX-License-Identifier: Apache-2.0
// What the translations (state_order.cu) are given beside what those of a persistent kernel know, too.
#pragma once

#include "kernels/persistent/arguments.hpp"

namespace onchip {

struct TranslationArguments : OrderArguments {
  const unsigned* status;  // not 0: a wait was given up, and what comes out is NaN
};

}  // namespace onchip
