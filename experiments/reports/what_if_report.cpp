// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/what_if_report.hpp"

#include "model/base/units.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <utility>

namespace onchip {
namespace {

double percent(double changed, double base) {
  return base > 0 ? 100 * (changed / base - 1) : 0;
}

std::string signed_percent(double value) {
  return (value > 0 ? "+" : "") + fixed(value, 1);
}

// A change of the step's time, marked where the model cannot tell it.
std::string told_percent(double value, bool is_told) {
  return signed_percent(value) + (is_told || value == 0 ? "" : " ~");
}

// Without the column of sizes where there are none.
std::string aligned(Table table, bool has_size) {
  if (!has_size) {
    const auto at = std::ranges::find_if(table.columns, [](auto& name) { return name.starts_with("largest hidden"); }) -
                    table.columns.begin();
    table.columns.erase(table.columns.begin() + at);
    for (auto& row : table.rows) {
      row.erase(row.begin() + at);
    }
  }
  return to_aligned(table);
}

// What is compared: the base, each of several changes alone, all of them.
struct Column {
  std::string title;
  const ShownSide* side;
};

std::string step_change(const ShownSide& base, const ShownSide& changed) {
  const PlanTime &a = base.time, &b = changed.time;
  return a.fits && b.fits ? told_percent(percent(b.us, a.us), is_told(a, b)) : "";
}

// The terms of the base's plan, then those that only another plan has.
std::vector<std::string_view> term_names(const std::vector<Column>& columns) {
  std::vector<std::string_view> names;
  for (const Column& column : columns) {
    for (const Term& term : column.side->terms) {
      if (std::ranges::find(names, term.name) == names.end()) {
        names.push_back(term.name);
      }
    }
  }
  return names;
}

std::string compare(const ShownWhatIf& answer) {
  std::vector<Column> columns{{"base", &answer.base}};
  for (const ChangeOf<ShownSide>& one : answer.alone) {
    if (one.side) {
      columns.push_back({one.change, &*one.side});
    }
  }
  columns.push_back({answer.alone.empty() ? "changed" : "all", &*answer.changed});
  Table table{{""}, {}};
  for (const Column& column : columns) {
    table.columns.push_back(column.title);
  }
  table.columns.emplace_back("change %");
  const auto add = [&](const std::string& name, const std::function<std::string(const ShownSide&)>& cell,
                       const std::string& change = "") {
    std::vector<std::string>& row = table.rows.emplace_back(1, name);
    for (const Column& column : columns) {
      row.push_back(cell(*column.side));
    }
    row.push_back(change);
  };
  const ShownSide &base = answer.base, &all = *answer.changed;
  const auto is_base = [&](const ShownSide& side) { return &side == &base; };
  if (base.hidden > 0) {
    add("hidden", [](const ShownSide& side) { return std::to_string(side.hidden); });
  }
  const std::string time(base.what);
  add(
      time, [](const ShownSide& side) { return side.time.fits ? side.says : "does not fit"; }, step_change(base, all));
  if (!answer.alone.empty()) {
    add(time + ", change %", [&](const ShownSide& side) { return is_base(side) ? "" : step_change(base, side); });
  }
  if (base.time.fits && all.time.fits) {
    for (const std::string_view name : term_names(columns)) {
      add(
          "  " + std::string(name), [&](const ShownSide& side) { return side.number(side.terms[name]); },
          base.terms[name] > 0 ? signed_percent(percent(all.terms[name], base.terms[name])) : "");
    }
  }
  if (base.hidden > 0) {
    const auto hidden_change = [&](const ShownSide& side) {
      return signed_percent(percent(side.largest_hidden, base.largest_hidden));
    };
    add(
        "largest hidden", [](const ShownSide& side) { return std::to_string(side.largest_hidden); },
        hidden_change(all));
    if (!answer.alone.empty()) {
      add("largest hidden, change %", [&](const ShownSide& side) { return is_base(side) ? "" : hidden_change(side); });
    }
  }
  for (const ShownNumber& number : base.more) {
    const auto of = [&](const ShownSide& side) {
      return std::ranges::find(side.more, number.name, &ShownNumber::name);
    };
    const auto of_all = of(all);
    add(
        number.name, [&](const ShownSide& side) { return of(side) == side.more.end() ? "" : of(side)->text; },
        number.number > 0 && of_all != all.more.end() ? signed_percent(percent(of_all->number, number.number)) : "");
  }
  std::string text = to_aligned(table);
  for (const ChangeOf<ShownSide>& one : answer.alone) {
    text += one.side ? "" : "alone it cannot be: " + one.problem + '\n';
  }
  if (const auto& more = answer.interaction) {
    text += "together less the sum of each alone: step " + signed_percent(more->step_percent) + " %, largest hidden " +
            signed_percent(more->hidden_percent) + " %\n";
  }
  text += '\n';
  const auto width = std::ranges::max(columns, {}, [](const Column& one) { return one.title.size(); }).title.size() + 2;
  for (const Column& column : columns) {
    text += column.title + std::string(width - column.title.size(), ' ') + column.side->time.plan + '\n';
  }
  return text;
}

}  // namespace

Report what_if_report(const ShownWhatIf& answer, Json json) {
  const ShownSide& base = answer.base;
  Table csv{{"case"}, {}};
  std::ranges::copy(answer.columns, std::back_inserter(csv.columns));
  std::ranges::copy(
      std::array{"largest_hidden", "d_hidden_percent", "d_step_percent", "d_hidden", "d_step_us", "difference_is_told"},
      std::back_inserter(csv.columns));
  const auto add_row = [&](const std::string& title, const std::vector<std::string>& cells,
                           const std::array<std::string, 6>& changes) {
    std::vector<std::string>& row = csv.rows.emplace_back(1, title);
    row.insert(row.end(), cells.begin(), cells.end());
    row.resize(1 + answer.columns.size());
    row.insert(row.end(), changes.begin(), changes.end());
  };
  const PlanTime& a = base.time;
  const auto add_side = [&](const std::string& title, const ShownSide& side) {
    const PlanTime& b = side.time;
    const bool both = a.fits && b.fits, is_base = &side == &base, has_size = !is_base && base.hidden > 0;
    add_row(title, side.cells,
            {base.hidden > 0 ? std::to_string(side.largest_hidden) : "",
             has_size ? significant(percent(side.largest_hidden, base.largest_hidden), 6) : "",
             is_base || !both ? "" : significant(percent(b.us, a.us), 6),
             has_size ? std::to_string(side.largest_hidden - base.largest_hidden) : "",
             is_base || !both ? "" : significant(b.us - a.us, 6), is_base ? "" : truth(is_told(a, b))});
  };
  add_side("base", base);
  std::string text = answer.base_text;
  if (answer.changed) {
    for (const ChangeOf<ShownSide>& one : answer.alone) {
      if (one.side) {
        add_side(one.change, *one.side);
      }
    }
    add_side("changed", *answer.changed);
    text = base.title + "\n\n" + compare(answer);
  }
  const std::string time = std::string(base.what) + " time";
  if (answer.sensitivity) {
    Table ranked{{"10 % more of", "largest hidden %", time + " %", ""}, {}};
    for (const Sensitivity& s : *answer.sensitivity) {
      add_row(std::string(s.key) + "+10%", {},
              {"", significant(s.hidden_percent, 6), significant(s.step_percent, 6), "", "", truth(s.is_told)});
      ranked.rows.push_back({std::string(s.key), signed_percent(s.hidden_percent), signed_percent(s.step_percent),
                             s.is_told || s.step_percent == 0 ? "" : "~"});
    }
    text += '\n' + aligned(ranked, base.hidden > 0);
  }
  if (answer.one_more) {
    Table bought{{"one more", "of", "largest hidden", std::string(base.what) + " us", ""}, {}};
    for (const OneMore& more : *answer.one_more) {
      add_row(std::string(more.key) + "+" + more.amount, {},
              {"", "", "", std::to_string(more.hidden), significant(more.step_us, 6), truth(more.is_told)});
      bought.rows.push_back(
          {more.amount, std::string(more.key), (more.hidden > 0 ? "+" : "") + std::to_string(more.hidden),
           (more.step_us > 0 ? "+" : "") + fixed(more.step_us, 4), more.step_us == 0 || more.is_told ? "" : "~"});
    }
    text += '\n' + aligned(bought, base.hidden > 0);
  }
  if (text.find('~') != std::string::npos) {
    text += "\n~ less than the model is off in such differences on average: " + fixed(100 * kSamePlanError, 1) +
            " % with the same plan, " + fixed(100 * kOtherPlanError, 1) + " % with another\n";
  }
  return {text, std::move(csv), std::move(json)};
}

}  // namespace onchip
