// SPDX-License-Identifier: Apache-2.0
// What a chip must have at least to reach a target, in the three forms of an answer.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/reports/shown.hpp"
#include "model/answer/json.hpp"

#include <string>
#include <vector>

namespace onchip {

// columns: of the cells of CSV.
Report target_report(const Target& target, const ReachedOf<Shown>& answer, const std::vector<std::string>& columns,
                     Json json);

template <typename C>
Report report_of(const TargetOf<C>& answer) {
  return target_report(answer.target, with_answers<Shown>(answer, [](const C& one) { return shown_whole(one); }),
                       csv_columns(answer.base), to_json(answer));
}

}  // namespace onchip
