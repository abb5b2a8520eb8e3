// SPDX-License-Identifier: Apache-2.0
// What a chip must have at least to reach a target, in the three forms of an answer.
#pragma once

#include "experiments/command/output.hpp"
#include "model/answer/target.hpp"

#include <string>
#include <vector>

namespace onchip {

// An answer as it is shown.
struct ShownAnswer {
  std::string what, column;  // "step", "step us"
  std::string says;          // its time, or why it does not fit
  std::string number;        // of the column
  std::string binding;       // "" where nothing fits
  std::vector<std::string> cells;
};
// asked: the lines of text before the answer.
Report report_of(const std::string& asked, const ReachedOf<ShownAnswer>& answer,
                 const std::vector<std::string>& columns, Json json);
Report report_of(const TargetAnswer& answer);

}  // namespace onchip
