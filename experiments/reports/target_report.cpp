// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/target_report.hpp"

#include "experiments/command/report.hpp"
#include "model/base/units.hpp"
#include "model/chip/chip_keys.hpp"

#include <algorithm>

namespace onchip {
namespace {

std::string quantity(std::string_view key, double value) {
  return format_quantity(value, find_key(key)->dimension);
}

std::string cost_text(const Varied& varied) {
  return varied.cost ? significant(*varied.cost, 6) : "";
}

std::string step_text(const Case& answer) {
  const Prediction& prediction = answer.planned.prediction;
  return prediction.footprint.fits ? time_text(prediction) : explain(prediction.footprint);
}

// "shared_memory.per_sm  228 KiB -> 390 KiB  +71.1 %"
Table least_values(const TargetAnswer& answer) {
  Table table{{"the least of", "has", "needs", "change %", "step", "cost"}, {}};
  for (std::size_t i = 0; i < answer.alone.size(); ++i) {
    const auto& [key, from] = answer.vary[i];
    const LeastValue& least = answer.alone[i];
    const double to = least.at.values[i];
    table.rows.push_back({std::string(key), quantity(key, from), least.reaches ? quantity(key, to) : "out of reach",
                          least.reaches ? (to > from ? "+" : "") + fixed(100 * (to / from - 1), 1) : "",
                          least.reaches ? time_text(least.at.answer.planned.prediction) : "", cost_text(least.at)});
  }
  return table;
}

// Where better values fail again, and what comes nearest where nothing reaches the target.
std::string remarks(const TargetAnswer& answer) {
  std::string text;
  for (std::size_t i = 0; i < answer.alone.size(); ++i) {
    const std::string_view key = answer.vary[i].first;
    const LeastValue& least = answer.alone[i];
    for (const auto& [first, last] : least.fails_again) {
      text += std::string(key) + ": " + quantity(key, first) + (first == last ? "" : " to " + quantity(key, last)) +
              " would not do again\n";
    }
    if (!least.reaches) {
      const Prediction& prediction = least.at.answer.planned.prediction;
      text += std::string(key) + " alone: the nearest is " + quantity(key, least.at.values[i]) + ", " +
              step_text(least.at.answer) +
              (prediction.footprint.fits ? ", bound by " + std::string(prediction.binding()) : "") + '\n';
    }
  }
  return text;
}

Table trade_off(const TargetAnswer& answer) {
  Table table{{std::string(answer.vary[0].first), std::string(answer.vary[1].first), "step us", "cost", ""}, {}};
  for (const Varied& varied : answer.trade_off) {
    const bool is_cheapest = answer.cheapest && answer.cheapest->option == varied.option;
    table.rows.push_back(
        {quantity(answer.vary[0].first, varied.values[0]), quantity(answer.vary[1].first, varied.values[1]),
         fixed(varied.answer.planned.prediction.step_us, 3), cost_text(varied), is_cheapest ? "cheapest" : ""});
  }
  return table;
}

// A column that nothing is in goes.
std::string without_empty(Table table) {
  for (std::size_t i = table.columns.size(); i-- > 0;) {
    if (std::ranges::all_of(table.rows, [&](const auto& row) { return row[i].empty(); })) {
      const auto at = static_cast<std::ptrdiff_t>(i);
      table.columns.erase(table.columns.begin() + at);
      for (auto& row : table.rows) {
        row.erase(row.begin() + at);
      }
    }
  }
  return to_aligned(table);
}

std::string text_of(const TargetAnswer& answer) {
  const Case& base = answer.base;
  const std::string wanted = answer.target.step_us
                                 ? "a step of at most " + significant(*answer.target.step_us, 6) + " us"
                                 : std::string("it fits");
  std::string text = describe(base.planned.network) + " on " + base.chip + "\n\ntarget    " + wanted + "\nas it is  " +
                     (answer.base_reaches ? "reached: " : "not reached: ") + step_text(base) + "\n\n" +
                     without_empty(least_values(answer));
  if (const std::string more = remarks(answer); !more.empty()) {
    text += '\n' + more;
  }
  if (!answer.trade_off.empty()) {
    text += "\nThe least of both together:\n" + without_empty(trade_off(answer));
  } else if (answer.vary.size() == 2) {
    text += "\nOut of reach with eight times both, too.\n";
  }
  if (answer.cheapest) {
    text += "\ncheapest  " + answer.cheapest->option + ", for " + cost_text(*answer.cheapest) + '\n';
  }
  return text;
}

}  // namespace

Report report_of(const TargetAnswer& answer) {
  Table csv{{"case", "reached"}, {}};
  for (const auto& [key, from] : answer.vary) {
    csv.columns.emplace_back(key);
  }
  const std::vector<std::string> columns = case_columns();
  csv.columns.emplace_back("cost");
  csv.columns.emplace_back("fails_again");
  csv.columns.insert(csv.columns.end(), columns.begin(), columns.end());
  const auto add = [&](const std::string& name, bool reaches, const std::vector<double>& values, const Case& of,
                       const std::string& cost, const std::string& fails_again = "") {
    std::vector<std::string> row{name, truth(reaches)};
    std::ranges::transform(values, std::back_inserter(row), format_number);
    row.insert(row.end(), {cost, fails_again});
    const std::vector<std::string> cells = case_cells(of, Binding::term);
    row.insert(row.end(), cells.begin(), cells.end());
    csv.rows.push_back(std::move(row));
  };
  std::vector<double> has;
  std::ranges::transform(answer.vary, std::back_inserter(has), [](const auto& one) { return one.second; });
  add("base", answer.base_reaches, has, answer.base, "");
  for (std::size_t i = 0; i < answer.alone.size(); ++i) {
    const LeastValue& least = answer.alone[i];
    std::string fails_again;
    for (const auto& [first, last] : least.fails_again) {
      fails_again += (fails_again.empty() ? "" : "; ") + format_number(first) + " to " + format_number(last);
    }
    add(std::string(answer.vary[i].first), least.reaches, least.at.values, least.at.answer, cost_text(least.at),
        fails_again);
  }
  for (const Varied& varied : answer.trade_off) {
    add("trade_off", true, varied.values, varied.answer, cost_text(varied));
  }
  if (answer.cheapest) {
    add("cheapest", true, answer.cheapest->values, answer.cheapest->answer, cost_text(*answer.cheapest));
  }
  return {text_of(answer), std::move(csv), to_json(answer)};
}

}  // namespace onchip
