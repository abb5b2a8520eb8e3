// SPDX-License-Identifier: Apache-2.0
// What a chip file takes from another that it names as its `base`, and which numbers follow when others change.
#pragma once

#include "model/chip/chip.hpp"

#include <functional>
#include <string_view>

namespace onchip {

// The numbers of another chip, as estimates for this one: what was measured there may be off by at least a tenth and
// by twice its interval here, and the scatter of the formulas is twice as wide. What a datasheet says stays exact.
ChipFile taken_from(const ChipFile& base);

using IsGiven = std::function<bool(std::string_view key)>;  // by the user, who then has the last word

// The limit of a block that follows what an SM has: what the SM has more, a block may ask for, and no more than the SM
// has. `member` null: none does.
struct Limit {
  Number Chip::*member = nullptr;
  std::string_view key = {};
  double most = 0;
};
Limit limit_after(const Chip& chip, const ChipKey& row);

// Lets limits follow all given numbers, and changes what else of the base cannot stay as it is: clusters that the
// compute capability does not know or the SMs do not fill, the L2 of another number of SMs.
void follow_all(ChipFile& file, const ChipFile& base, const IsGiven& is_given);

}  // namespace onchip
