// SPDX-License-Identifier: Apache-2.0
// The best plan of every family, in the three forms of an answer.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/reports/shown.hpp"
#include "model/answer/json.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace onchip {

template <typename C>
Report report_of(const RankOf<C>& answer) {
  Table table{{"family", "", "low", "high", "why"}, {}};
  Table csv;
  std::string plans;
  for (const RankedOf<C>& ranked : answer.ranking) {
    std::vector<std::string> cells{std::string(ranked.family), "", "", "", ranked.why};
    if (ranked.answer) {
      const Shown of = shown_whole(*ranked.answer);
      csv.columns = csv_columns(*ranked.answer);
      const auto why = std::ranges::find(csv.columns, "why");
      csv.rows.push_back(of.cells);
      csv.rows.back().resize(csv.columns.size() + (why == csv.columns.end() ? 1 : 0));
      csv.rows.back()[static_cast<std::size_t>(why - csv.columns.begin())] = ranked.why;
      table.columns[1] = std::string(of.unit) + (of.what == "step" ? " per step" : "");
      if (of.time.fits || !ranked.is_on_chip) {
        cells = {cells[0], of.number(of.time.us), of.number(of.low_us), of.number(of.high_us), ranked.why};
      }
      if (ranked.is_on_chip) {
        plans += of.time.plan + '\n';
      }
    }
    table.rows.push_back(std::move(cells));
  }
  if (std::ranges::find(csv.columns, "why") == csv.columns.end()) {
    csv.columns.emplace_back("why");
  }
  return {answer.title + "\n\n" + to_aligned(table) + '\n' + plans, std::move(csv), to_json(answer)};
}

}  // namespace onchip
