// SPDX-License-Identifier: Apache-2.0
// What claims about the Sparse DNN Graph Challenge say, from the price of staged plans: 60,000 synthetic digits.
#pragma once

#include "experiments/claims/recipe.hpp"
#include "model/chip/chip.hpp"

#include <string>

namespace onchip {

// ms of an inference, or of one of its terms, on this chip unless the way has its own; NaN where the plan does not fit.
double claimed_ms(const Chip& chip, const std::string& network, const RecipeWay& way);

// Weights times images, in 10^12, as the challenge counts.
double tera_edges(const std::string& network);

}  // namespace onchip
