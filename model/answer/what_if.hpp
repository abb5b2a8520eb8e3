// SPDX-License-Identifier: Apache-2.0
// What if the chip were another? Its changes, each alone and all together; which of its numbers matter, and what one
// more of them buys.
#pragma once

#include "model/answer/answer.hpp"

namespace onchip {

// One chip's answer: the network that was asked for, or the largest that fits where no size was given.
struct WhatIfSide {
  Case answer;
  int largest_hidden = 0;  // of the expected mask
};
// One change of several. Alone it may be impossible.
struct WhatIfChange {
  std::string change;  // "sm.count=+10%"
  std::optional<WhatIfSide> side = {};
  std::string problem = {};  // why there is none
};
struct WhatIfAnswer {
  WhatIfSide base;
  std::vector<WhatIfChange> alone = {};  // of several changes
  std::optional<WhatIfSide> changed = {};
  std::optional<std::vector<Sensitivity>> sensitivity = {};  // of the base
  std::optional<std::vector<OneMore>> one_more = {};         // of the base
};
// Ranking the chip's numbers takes the longest, and may be left out.
WhatIfAnswer what_if(const Question& base, const std::vector<std::string>& changes = {}, bool ranks_numbers = true);

// How much more the changes together do than the sum of what each does alone, of the base's; nothing where one of them
// has no answer.
struct Interaction {
  double hidden_percent = 0, step_percent = 0;
};
std::optional<Interaction> interaction(const WhatIfAnswer& answer);

}  // namespace onchip
