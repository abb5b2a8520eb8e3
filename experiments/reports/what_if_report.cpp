// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/what_if_report.hpp"

#include "experiments/command/report.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <functional>
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
// What is compared: the base, each of several changes alone, all of them.
struct Column {
  std::string title;
  const ComparedSide* side;
};

std::string step_change(const ComparedSide& base, const ComparedSide& changed) {
  const PlanTime &a = base.time, &b = changed.time;
  return a.fits && b.fits ? told_percent(percent(b.us, a.us), is_told(a, b)) : "";
}

std::string compare(const ComparedSides& answer) {
  std::vector<Column> columns{{"base", &answer.base}};
  for (const ChangeOf<ComparedSide>& one : answer.alone) {
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
  const auto add = [&](const std::string& name, const std::function<std::string(const ComparedSide&)>& cell,
                       const std::string& change = "") {
    std::vector<std::string>& row = table.rows.emplace_back(1, name);
    for (const Column& column : columns) {
      row.push_back(cell(*column.side));
    }
    row.push_back(change);
  };
  const auto prediction = [](const ComparedSide& side) -> const Prediction& { return side.prediction; };
  const Prediction &a = prediction(answer.base), &b = prediction(*answer.changed);
  add("hidden", [](const ComparedSide& side) { return std::to_string(side.hidden); });
  add(
      "step", [](const ComparedSide& side) { return side.time.fits ? side.step : "does not fit"; },
      step_change(answer.base, *answer.changed));
  const auto is_base = [&](const ComparedSide& side) { return &side == &answer.base; };
  if (!answer.alone.empty()) {
    add("step, change %",
        [&](const ComparedSide& side) { return is_base(side) ? "" : step_change(answer.base, side); });
  }
  if (answer.base.time.fits && answer.changed->time.fits) {
    // The terms of the base's plan, then those that only another plan has.
    std::vector<std::string_view> names;
    for (const Column& column : columns) {
      for (const Term& term : prediction(*column.side).terms) {
        if (std::ranges::find(names, term.name) == names.end()) {
          names.push_back(term.name);
        }
      }
    }
    for (const std::string_view name : names) {
      add(
          "  " + std::string(name), [&](const ComparedSide& side) { return fixed(prediction(side).terms[name], 3); },
          a.terms[name] > 0 ? signed_percent(percent(b.terms[name], a.terms[name])) : "");
    }
  }
  const auto hidden_change = [&](const ComparedSide& side) {
    return signed_percent(percent(side.largest_hidden, answer.base.largest_hidden));
  };
  add(
      "largest hidden", [](const ComparedSide& side) { return std::to_string(side.largest_hidden); },
      hidden_change(*answer.changed));
  if (!answer.alone.empty()) {
    add("largest hidden, change %", [&](const ComparedSide& side) { return is_base(side) ? "" : hidden_change(side); });
  }
  for (std::size_t i = 0; i < kResources.size(); ++i) {
    const auto& [name, unit] = kResources[i];
    add(unit.starts_with("bytes") ? std::string(name) + " (" + std::string(unit) + ")" : std::string(unit),
        [&](const ComparedSide& side) {
          const ResourceUse& resource = prediction(side).footprint.resources[i];
          return format_number(resource.used) + " of " + format_number(resource.available);
        });
  }
  std::string text = to_aligned(table);
  for (const ChangeOf<ComparedSide>& one : answer.alone) {
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

Report report_of(const ComparedSides& answer, Json json) {
  const ComparedSide& base = answer.base;
  Table csv{{"case", "hidden", "step_us", "largest_hidden", "d_hidden_percent", "d_step_percent", "d_hidden",
             "d_step_us", "difference_is_told"},
            {}};
  const PlanTime& a = base.time;
  const auto add_side = [&](const std::string& title, const ComparedSide& side) {
    const PlanTime& b = side.time;
    const bool both = a.fits && b.fits, is_base = &side == &base;
    csv.rows.push_back({title, std::to_string(side.hidden), b.fits ? significant(b.us, 6) : "",
                        std::to_string(side.largest_hidden),
                        is_base ? "" : significant(percent(side.largest_hidden, base.largest_hidden), 6),
                        is_base || !both ? "" : significant(percent(b.us, a.us), 6),
                        is_base ? "" : std::to_string(side.largest_hidden - base.largest_hidden),
                        is_base || !both ? "" : significant(b.us - a.us, 6), is_base ? "" : truth(is_told(a, b))});
  };
  add_side("base", base);
  std::string text = answer.base_text;
  if (answer.changed) {
    for (const ChangeOf<ComparedSide>& one : answer.alone) {
      if (one.side) {
        add_side(one.change, *one.side);
      }
    }
    add_side("changed", *answer.changed);
    text = answer.title + "\n\n" + compare(answer);
  }
  if (answer.sensitivity) {
    Table ranked{{"10 % more of", "largest hidden %", "step time %", ""}, {}};
    for (const Sensitivity& s : *answer.sensitivity) {
      csv.rows.push_back({std::string(s.key) + "+10%", "", "", "", significant(s.hidden_percent, 6),
                          significant(s.step_percent, 6), "", "", truth(s.is_told)});
      ranked.rows.push_back({std::string(s.key), signed_percent(s.hidden_percent), signed_percent(s.step_percent),
                             s.is_told || s.step_percent == 0 ? "" : "~"});
    }
    text += '\n' + to_aligned(ranked);
  }
  if (answer.one_more) {
    Table bought{{"one more", "of", "largest hidden", "step us", ""}, {}};
    for (const OneMore& more : *answer.one_more) {
      csv.rows.push_back({std::string(more.key) + "+" + more.amount, "", "", "", "", "", std::to_string(more.hidden),
                          significant(more.step_us, 6), truth(more.is_told)});
      bought.rows.push_back(
          {more.amount, std::string(more.key), (more.hidden > 0 ? "+" : "") + std::to_string(more.hidden),
           (more.step_us > 0 ? "+" : "") + fixed(more.step_us, 4), more.step_us == 0 || more.is_told ? "" : "~"});
    }
    text += '\n' + to_aligned(bought);
  }
  if (text.find('~') != std::string::npos) {
    text += "\n~ less than the model is off in such differences on average: " + fixed(100 * kSamePlanError, 1) +
            " % with the same plan, " + fixed(100 * kOtherPlanError, 1) + " % with another\n";
  }
  return {text, std::move(csv), std::move(json)};
}

Report report_of(const WhatIfAnswer& answer) {
  const auto side_of = [](const WhatIfSide& side) {
    const PlannedNetwork& planned = side.answer.planned;
    const Prediction& prediction = planned.prediction;
    return ComparedSide{planned.network.hidden,
                        prediction,
                        time_text(prediction),
                        side.largest_hidden,
                        {prediction.footprint.fits, prediction.step_us, to_string(planned.plan)}};
  };
  const Case& base = answer.base.answer;
  return report_of({with_sides<ComparedSide>(answer, side_of), describe(base.planned.network) + " on " + base.chip,
                    to_text(base), interaction(answer), answer.sensitivity, answer.one_more},
                   to_json(answer));
}

}  // namespace onchip
