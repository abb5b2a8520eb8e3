// SPDX-License-Identifier: Apache-2.0
// How long does a training step take, forward and all gradients, and what memory does it need?
#pragma once

#include "model/answer/answer.hpp"
#include "model/answer/json.hpp"
#include "model/training/price.hpp"

#include <optional>
#include <string>
#include <vector>

namespace onchip {

struct TrainingAnswer {
  std::string chip;
  Training training;
  TrainingStep step;
  TrainingPrice price;
  std::vector<LibraryTraining> libraries;
  // Of the kernels' own quickest step, where another is answered; or why there is none.
  std::optional<TrainingPrice> own;
  std::string lacks;
};

// Of the given step, or of the quickest one. Throws InputError where the network cannot be trained, or a given step's
// plans cannot be built for it.
TrainingAnswer predict_training(const ChipFile& chip, const Training& training, Stash stash,
                                const std::optional<TrainingStep>& given = {});

Json to_json(const TrainingAnswer& answer);

}  // namespace onchip
