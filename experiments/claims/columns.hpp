// SPDX-License-Identifier: Apache-2.0
// What claims about training say: times of whole iterations from columns of a measured file, a row for each network.
#pragma once

#include "experiments/claims/recipe.hpp"

namespace onchip {

// Of the network's row, which has its hidden, batch, steps, layers and precision. NaN where the file has none. Throws
// InputError where it has no such column.
double measured_column(const std::filesystem::path& file, const ClaimedNetwork& network, const std::string& column);

}  // namespace onchip
