// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/target_report.hpp"

#include "model/base/joined.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <iterator>

namespace onchip {
namespace {

// In the unit of the chip's file.
std::string quantity(const VariedKey& varied, double value) {
  const std::string number = format_number(rounded(value / unit_factor(varied.key->dimension, varied.unit)));
  return varied.unit.empty() || varied.unit == "1" ? number : number + ' ' + varied.unit;
}

std::string cost_text(const VariedOf<Shown>& varied) {
  return varied.cost ? significant(*varied.cost, 6) : "";
}

// "shared_memory.per_sm  228 KiB -> 390 KiB  +71.1 %"
Table least_values(const ReachedOf<Shown>& answer) {
  Table table{{"the least of", "has", "needs", "change %", std::string(answer.base.what), "cost"}, {}};
  for (std::size_t i = 0; i < answer.alone.size(); ++i) {
    const VariedKey& varied = answer.vary[i];
    const LeastOf<Shown>& least = answer.alone[i];
    const double from = varied.from, to = least.at.values[i];
    table.rows.push_back({std::string(varied.key->key), quantity(varied, from),
                          least.reaches ? quantity(varied, to) : "out of reach",
                          least.reaches ? (to > from ? "+" : "") + fixed(100 * (to / from - 1), 1) : "",
                          least.reaches ? least.at.answer.says : "", cost_text(least.at)});
  }
  return table;
}

// Where better values fail again, and what comes nearest where nothing reaches the target.
std::string remarks(const ReachedOf<Shown>& answer) {
  std::string text;
  for (std::size_t i = 0; i < answer.alone.size(); ++i) {
    const VariedKey& varied = answer.vary[i];
    const std::string key(varied.key->key);
    const LeastOf<Shown>& least = answer.alone[i];
    for (const auto& [first, last] : least.fails_again) {
      text += key + ": " + quantity(varied, first) + (first == last ? "" : " to " + quantity(varied, last)) +
              " does not do again\n";
    }
    if (!least.reaches) {
      text += key + " alone comes nearest with " + quantity(varied, least.at.values[i]) + ": " + least.at.answer.says +
              (least.at.answer.binding.empty() ? "" : ", bound by " + std::string(least.at.answer.binding)) + '\n';
    }
  }
  return text;
}

Table trade_off(const ReachedOf<Shown>& answer) {
  Table table{{std::string(answer.vary[0].key->key), std::string(answer.vary[1].key->key),
               std::string(answer.base.what) + ' ' + std::string(answer.base.unit), "cost", ""},
              {}};
  for (const VariedOf<Shown>& varied : answer.trade_off) {
    const bool is_cheapest = answer.cheapest && answer.cheapest->option == varied.option;
    table.rows.push_back({quantity(answer.vary[0], varied.values[0]), quantity(answer.vary[1], varied.values[1]),
                          varied.answer.time.fits ? varied.answer.number(varied.answer.time.us) : "", cost_text(varied),
                          is_cheapest ? "cheapest" : ""});
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

std::string wanted(const Target& target) {
  return target.step_us ? "a step of at most " + significant(*target.step_us, 6) + " us"
         : target.ms    ? "at most " + significant(*target.ms, 6) + " ms"
                        : "it fits";
}

std::string text_of(const Target& target, const ReachedOf<Shown>& answer) {
  std::string text = answer.base.title + "\n\ntarget    " + wanted(target) + "\nas it is  " +
                     (answer.base_reaches ? "reached: " : "not reached: ") + answer.base.says + "\n\n" +
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

Report target_report(const Target& target, const ReachedOf<Shown>& answer, const std::vector<std::string>& columns,
                     Json json) {
  Table csv{{"case", "reached"}, {}};
  std::vector<double> has;
  for (const VariedKey& varied : answer.vary) {
    csv.columns.emplace_back(varied.key->key);
    has.push_back(varied.from);
  }
  csv.columns.emplace_back("cost");
  csv.columns.emplace_back("fails_again");
  csv.columns.insert(csv.columns.end(), columns.begin(), columns.end());
  const auto add = [&](const std::string& name, bool reaches, const std::vector<double>& values, const Shown& of,
                       const std::string& cost, const std::string& fails_again = "") {
    std::vector<std::string> row{name, truth(reaches)};
    std::ranges::transform(values, std::back_inserter(row),
                           [](double value) { return format_number(rounded(value, 12)); });
    row.insert(row.end(), {cost, fails_again});
    row.insert(row.end(), of.cells.begin(), of.cells.end());
    csv.rows.push_back(std::move(row));
  };
  add("base", answer.base_reaches, has, answer.base, "");
  for (std::size_t i = 0; i < answer.alone.size(); ++i) {
    const LeastOf<Shown>& least = answer.alone[i];
    const std::string fails_again = joined(least.fails_again, "; ", "", [](const auto& values) {
      return format_number(values.first) + " to " + format_number(values.second);
    });
    add(std::string(answer.vary[i].key->key), least.reaches, least.at.values, least.at.answer, cost_text(least.at),
        fails_again);
  }
  for (const VariedOf<Shown>& varied : answer.trade_off) {
    add("trade_off", true, varied.values, varied.answer, cost_text(varied));
  }
  if (answer.cheapest) {
    add("cheapest", true, answer.cheapest->values, answer.cheapest->answer, cost_text(*answer.cheapest));
  }
  return {text_of(target, answer), std::move(csv), std::move(json)};
}

}  // namespace onchip
