// SPDX-License-Identifier: Apache-2.0
// What if the chip were another? Its changes, each alone and all together; which of its numbers matter, and what one
// more of them buys.
#include "model/answer/answer.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"

#include <algorithm>

namespace onchip {
namespace {

// As fit and predict answer.
WhatIfSide side_of(const ChipFile& chip, const Question& question) {
  const Configuration& configuration = question.configuration;
  Question of_chip = question;
  of_chip.chip = chip;
  Configuration any_size = configuration;
  any_size.network.hidden = 0;
  any_size.weights = nullptr;
  any_size.constraints.tier = any_size.constraints.tier.value_or(Tier::shared_memory);
  const Capacity capacity = largest_network(of_chip, any_size, decided_by_model);
  WhatIfSide side{{chip.chip.name, configuration, {}}, capacity.largest ? capacity.largest->network.hidden : 0};
  if (configuration.network.hidden == 0) {
    side.answer.planned = {capacity.largest ? *capacity.largest : capacity.next};
  } else {
    side.answer.planned = decided_by_model(chip.chip, configuration, row_profile(configuration));
  }
  return side;
}

}  // namespace

WhatIfAnswer what_if(const Question& base, const std::vector<std::string>& changes, bool ranks_numbers) {
  const Configuration& configuration = base.configuration;
  ChipFile together = base.chip;
  for (const std::string& change : changes) {
    set_chip_key(together, change);
  }
  WhatIfAnswer answer;
  if (changes.size() > 1) {
    for (const std::string& change : changes) {
      answer.alone.push_back({change});
    }
  }
  parallel_for(static_cast<int>(answer.alone.size()) + 2, all_cores(), [&](int i) {
    if (i == 0) {
      answer.base = side_of(base.chip, base);
    } else if (i == 1) {
      if (!changes.empty()) {
        answer.changed = side_of(together, base);
      }
    } else {
      WhatIfChange& one = answer.alone[static_cast<std::size_t>(i) - 2];
      ChipFile changed = base.chip;
      try {
        set_chip_key(changed, one.change);
      } catch (const InputError& error) {
        one.problem = error.what();
        return;
      }
      one.side = side_of(changed, base);
    }
  });
  if (!ranks_numbers) {
    return answer;
  }
  Configuration found = configuration;
  found.network = answer.base.answer.planned.network;
  const RowProfile rows =
      configuration.network.hidden > 0 ? row_profile(found) : RowProfile::uniform(found.network, found.mask);
  answer.sensitivity = sensitivities(base.chip, found.network, rows, base.granule, configuration.constraints);
  answer.one_more = one_more(base.chip, found.network, rows, configuration.constraints);
  return answer;
}

std::optional<Interaction> interaction(const WhatIfAnswer& answer) {
  const auto fits = [](const std::optional<WhatIfSide>& side) {
    return side && side->answer.planned.prediction.footprint.fits && side->largest_hidden > 0;
  };
  if (answer.alone.empty() || !fits(answer.base) || !fits(answer.changed) ||
      !std::ranges::all_of(answer.alone, fits, &WhatIfChange::side)) {
    return std::nullopt;
  }
  Interaction more;
  const auto add = [&](const WhatIfSide& side, double times) {
    const double step_us = answer.base.answer.planned.prediction.step_us;
    more.step_percent += times * 100 * (side.answer.planned.prediction.step_us / step_us - 1);
    more.hidden_percent += times * 100 * (static_cast<double>(side.largest_hidden) / answer.base.largest_hidden - 1);
  };
  add(*answer.changed, 1);
  for (const WhatIfChange& one : answer.alone) {
    add(*one.side, -1);
  }
  return more;
}

}  // namespace onchip
