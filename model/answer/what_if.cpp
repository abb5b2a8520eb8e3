// SPDX-License-Identifier: Apache-2.0
// What if the chip were another? Its changes, each alone and all together; which of its numbers matter, and what one
// more of them buys.
#include "model/answer/answer.hpp"

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
  WhatIfAnswer answer{
      compare_chips<WhatIfSide>(base.chip, changes, [&](const ChipFile& chip) { return side_of(chip, base); })};
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
  return interaction(static_cast<const ComparedOf<WhatIfSide>&>(answer), [](const WhatIfSide& side) {
    const Prediction& prediction = side.answer.planned.prediction;
    return AnswerNumbers{prediction.footprint.fits, prediction.step_us, side.largest_hidden};
  });
}

}  // namespace onchip
