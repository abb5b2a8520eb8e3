// SPDX-License-Identifier: Apache-2.0
// onchip what-if: the same network on a changed chip, and which chip numbers its answer hangs on; or, backwards, what
// the chip must have to reach a target.
#include "experiments/command/plan_options.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/command/report.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/feed_forward/answers.hpp"
#include "experiments/feed_forward/questions.hpp"
#include "experiments/reports/target_report.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <functional>

namespace onchip {
namespace {

double percent(double changed, double base) {
  return base > 0 ? 100 * (changed / base - 1) : 0;
}

std::string signed_percent(double value) {
  return (value > 0 ? "+" : "") + fixed(value, 1);
}

std::string step_text(const Prediction& prediction) {
  return prediction.footprint.fits ? time_text(prediction) : "does not fit";
}

// A change of the step's time, marked where the model cannot tell it.
std::string told_percent(double value, bool is_told) {
  return signed_percent(value) + (is_told || value == 0 ? "" : " ~");
}
// What is compared: the base, each of several changes alone, all of them.
struct Column {
  std::string title;
  const WhatIfSide* side;
};

std::string step_change(const WhatIfSide& base, const WhatIfSide& changed) {
  const PlannedNetwork &a = base.answer.planned, &b = changed.answer.planned;
  return a.prediction.footprint.fits && b.prediction.footprint.fits
             ? told_percent(percent(b.prediction.step_us, a.prediction.step_us), is_told(a, b))
             : "";
}

std::string compare(const WhatIfAnswer& answer) {
  std::vector<Column> columns{{"base", &answer.base}};
  for (const WhatIfChange& one : answer.alone) {
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
  const auto add = [&](const std::string& name, const std::function<std::string(const WhatIfSide&)>& cell,
                       const std::string& change = "") {
    std::vector<std::string>& row = table.rows.emplace_back(1, name);
    for (const Column& column : columns) {
      row.push_back(cell(*column.side));
    }
    row.push_back(change);
  };
  const auto prediction = [](const WhatIfSide& side) -> const Prediction& { return side.answer.planned.prediction; };
  const Prediction &a = prediction(answer.base), &b = prediction(*answer.changed);
  add("hidden", [](const WhatIfSide& side) { return std::to_string(side.answer.planned.network.hidden); });
  add(
      "step", [&](const WhatIfSide& side) { return step_text(prediction(side)); },
      step_change(answer.base, *answer.changed));
  const auto is_base = [&](const WhatIfSide& side) { return &side == &answer.base; };
  if (!answer.alone.empty()) {
    add("step, change %", [&](const WhatIfSide& side) { return is_base(side) ? "" : step_change(answer.base, side); });
  }
  if (a.footprint.fits && b.footprint.fits) {
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
          "  " + std::string(name), [&](const WhatIfSide& side) { return fixed(prediction(side).terms[name], 3); },
          a.terms[name] > 0 ? signed_percent(percent(b.terms[name], a.terms[name])) : "");
    }
  }
  const auto hidden_change = [&](const WhatIfSide& side) {
    return signed_percent(percent(side.largest_hidden, answer.base.largest_hidden));
  };
  add(
      "largest hidden", [](const WhatIfSide& side) { return std::to_string(side.largest_hidden); },
      hidden_change(*answer.changed));
  if (!answer.alone.empty()) {
    add("largest hidden, change %", [&](const WhatIfSide& side) { return is_base(side) ? "" : hidden_change(side); });
  }
  for (std::size_t i = 0; i < kResources.size(); ++i) {
    const auto& [name, unit] = kResources[i];
    add(unit.starts_with("bytes") ? std::string(name) + " (" + std::string(unit) + ")" : std::string(unit),
        [&](const WhatIfSide& side) {
          const ResourceUse& resource = prediction(side).footprint.resources[i];
          return format_number(resource.used) + " of " + format_number(resource.available);
        });
  }
  std::string text = to_aligned(table);
  for (const WhatIfChange& one : answer.alone) {
    text += one.side ? "" : "alone it cannot be: " + one.problem + '\n';
  }
  if (const auto more = interaction(answer)) {
    text += "together less the sum of each alone: step " + signed_percent(more->step_percent) + " %, largest hidden " +
            signed_percent(more->hidden_percent) + " %\n";
  }
  text += '\n';
  const auto width = std::ranges::max(columns, {}, [](const Column& one) { return one.title.size(); }).title.size() + 2;
  for (const Column& column : columns) {
    text += column.title + std::string(width - column.title.size(), ' ') + to_string(column.side->answer.planned.plan) +
            '\n';
  }
  return text;
}

Report report_of(const WhatIfAnswer& answer) {
  const WhatIfSide& base = answer.base;
  Table csv{{"case", "hidden", "step_us", "largest_hidden", "d_hidden_percent", "d_step_percent", "d_hidden",
             "d_step_us", "difference_is_told"},
            {}};
  const PlannedNetwork& a = base.answer.planned;
  const auto add_side = [&](const std::string& title, const WhatIfSide& side) {
    const PlannedNetwork& b = side.answer.planned;
    const bool both = a.prediction.footprint.fits && b.prediction.footprint.fits, is_base = &side == &base;
    csv.rows.push_back({title, std::to_string(b.network.hidden),
                        b.prediction.footprint.fits ? significant(b.prediction.step_us, 6) : "",
                        std::to_string(side.largest_hidden),
                        is_base ? "" : significant(percent(side.largest_hidden, base.largest_hidden), 6),
                        is_base || !both ? "" : significant(percent(b.prediction.step_us, a.prediction.step_us), 6),
                        is_base ? "" : std::to_string(side.largest_hidden - base.largest_hidden),
                        is_base || !both ? "" : significant(b.prediction.step_us - a.prediction.step_us, 6),
                        is_base ? "" : truth(is_told(a, b))});
  };
  add_side("base", base);
  std::string text = to_text(base.answer);
  if (answer.changed) {
    for (const WhatIfChange& one : answer.alone) {
      if (one.side) {
        add_side(one.change, *one.side);
      }
    }
    add_side("changed", *answer.changed);
    text = describe(a.network) + " on " + base.answer.chip + "\n\n" + compare(answer);
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
  return {text, std::move(csv), to_json(answer)};
}

}  // namespace

int run_what_if(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto texts = [](const char* name) {
    return boost::program_options::value<std::vector<std::string>>()->composing()->value_name(name);
  };
  OptionGroup ranking = option_group("Ranking");
  ranking.add_options()("no-ranking",
                        "Leave out which of the chip's numbers matter and what one more of them buys, which takes the "
                        "longest.");
  OptionGroup backwards = option_group("Backwards: what must the chip have at least?");
  // clang-format off
  backwards.add_options()
      ("target", texts("TARGET"), "Ask for a network that fits, hidden=8192, or for a quicker step, \"step_us<=2\", or inference, \"ms<=5\" with "
       "--network; repeatable (default: that the network fits).")
      ("vary", texts("KEY"), "Find the least of this number of the chip that reaches the target, and of two what more of "
       "one saves of the other; repeatable (default: sm.count, registers.per_sm and shared_memory.per_sm, each alone; with --network shared_memory.per_sm, "
       "and for a time sm.count and library.l2_bandwidth).")
      ("price", texts("KEY=NUMBER/UNIT"), "Find the cheapest of these, by what one more unit of a number costs, e.g. "
       "shared_memory.per_sm=1/KiB; repeatable.");
  // clang-format on
  const auto options = parse_options(verb, arguments,
                                     {chip_options(), network_options(), plan_options(), granule_option(), backwards,
                                      ranking, feed_forward_options(), output_options()});
  if (!options) {
    return 0;
  }
  if (asks_feed_forward(*options, {network_options(), plan_options(), granule_option(), ranking})) {
    return what_if_feed_forward(*options);
  }
  const auto targets = options->list("target"), vary = options->list("vary"), prices = options->list("price");
  const bool is_backwards = !targets.empty() || !vary.empty() || !prices.empty();
  Question base{is_backwards ? read_chip(*options) : read_base_chip(*options),
                read_configuration(*options, /*needs_hidden=*/false), read_granule(*options)};
  if (is_backwards) {
    const TargetQuestion question = target_question(base, targets, vary, prices);
    Output output(*options);
    const TargetAnswer answer = [&] {
      const Waiting waiting("seeking the least");
      return reach(question);
    }();
    output.write(report_of(answer));
    return answer.reaches() ? 0 : 1;
  }
  const std::vector<std::string> changes = options->list("set");
  Output output(*options);
  const WhatIfAnswer answer = [&] {
    const Waiting waiting("comparing");
    return what_if(base, changes, !options->flag("no-ranking"));
  }();
  output.write(report_of(answer));
  return answer.base.answer.planned.prediction.footprint.fits ? 0 : 1;
}

}  // namespace onchip
