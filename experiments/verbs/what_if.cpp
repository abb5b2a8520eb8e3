// SPDX-License-Identifier: Apache-2.0
// onchip what-if: the same network on a changed chip, and which chip numbers its answer hangs on.
#include "experiments/command/plan_options.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/command/report.hpp"
#include "experiments/command/verbs.hpp"
#include "model/base/units.hpp"

#include <algorithm>

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

std::string compare(const WhatIfSide& base, const WhatIfSide& changed) {
  const Prediction& a = base.answer.planned.prediction;
  const Prediction& b = changed.answer.planned.prediction;
  const bool both = a.footprint.fits && b.footprint.fits;
  Table table{{"", "base", "changed", "change %"}, {}};
  const auto hidden = [](const WhatIfSide& side) { return std::to_string(side.answer.planned.network.hidden); };
  table.rows.push_back({"hidden", hidden(base), hidden(changed), ""});
  table.rows.push_back({"step", step_text(a), step_text(b), both ? signed_percent(percent(b.step_us, a.step_us)) : ""});
  if (both) {
    // The terms of the base's plan, then those that only the changed chip's has.
    std::vector<std::string_view> names;
    for (const Terms* terms : {&a.terms, &b.terms}) {
      for (const Term& term : *terms) {
        if (std::ranges::find(names, term.name) == names.end()) {
          names.push_back(term.name);
        }
      }
    }
    for (const std::string_view name : names) {
      const double before = a.terms[name], after = b.terms[name];
      table.rows.push_back({"  " + std::string(name), fixed(before, 3), fixed(after, 3),
                            before > 0 ? signed_percent(percent(after, before)) : ""});
    }
  }
  table.rows.push_back({"largest hidden", std::to_string(base.largest_hidden), std::to_string(changed.largest_hidden),
                        signed_percent(percent(changed.largest_hidden, base.largest_hidden))});
  for (std::size_t i = 0; i < kResources.size(); ++i) {
    const auto use = [&](const Prediction& prediction) {
      const ResourceUse& resource = prediction.footprint.resources[i];
      return format_number(resource.used) + " of " + format_number(resource.available);
    };
    const auto& [name, unit] = kResources[i];
    table.rows.push_back(
        {unit.starts_with("bytes") ? std::string(name) + " (" + std::string(unit) + ")" : std::string(unit), use(a),
         use(b), ""});
  }
  return to_aligned(table) + "\nbase     " + to_string(base.answer.planned.plan) + "\nchanged  " +
         to_string(changed.answer.planned.plan) + '\n';
}

Report report_of(const WhatIfAnswer& answer) {
  const WhatIfSide& base = answer.base;
  Table csv{{"case", "hidden", "step_us", "largest_hidden", "d_hidden_percent", "d_step_percent"}, {}};
  const auto add_side = [&](const char* title, const WhatIfSide& side, const std::string& d_hidden,
                            const std::string& d_step) {
    const Prediction& prediction = side.answer.planned.prediction;
    csv.rows.push_back({title, std::to_string(side.answer.planned.network.hidden),
                        prediction.footprint.fits ? significant(prediction.step_us, 6) : "",
                        std::to_string(side.largest_hidden), d_hidden, d_step});
  };
  add_side("base", base, "", "");
  std::string text = to_text(base.answer);
  if (answer.changed) {
    const WhatIfSide& changed = *answer.changed;
    const Prediction& a = base.answer.planned.prediction;
    const Prediction& b = changed.answer.planned.prediction;
    add_side("changed", changed, significant(percent(changed.largest_hidden, base.largest_hidden), 6),
             a.footprint.fits && b.footprint.fits ? significant(percent(b.step_us, a.step_us), 6) : "");
    text = describe(base.answer.planned.network) + " on " + base.answer.chip + "\n\n" + compare(base, changed);
  }
  if (!answer.sensitivity) {
    return {text, std::move(csv), to_json(answer)};
  }
  Table ranked{{"10 % more of", "largest hidden %", "step time %"}, {}};
  for (const Sensitivity& s : *answer.sensitivity) {
    csv.rows.push_back(
        {std::string(s.key) + "+10%", "", "", "", significant(s.hidden_percent, 6), significant(s.step_percent, 6)});
    ranked.rows.push_back({std::string(s.key), signed_percent(s.hidden_percent), signed_percent(s.step_percent)});
  }
  return {text + '\n' + to_aligned(ranked), std::move(csv), to_json(answer)};
}

}  // namespace

int run_what_if(const Verb& verb, const std::vector<std::string>& arguments) {
  OptionGroup ranking = option_group("Ranking");
  ranking.add_options()("no-ranking", "Leave the ranking of the chip's numbers out, which takes the longest.");
  const auto options =
      parse_options(verb, arguments,
                    {chip_options(), network_options(), plan_options(), granule_option(), ranking, output_options()});
  if (!options) {
    return 0;
  }
  const ChipFile chip = read_base_chip(*options);
  const Question base{chip, read_configuration(*options, /*needs_hidden=*/false), read_granule(*options)};
  const ChipFile changed = with_changes(chip, *options);
  Output output(*options);
  const WhatIfAnswer answer = [&] {
    const Waiting waiting("comparing");
    return what_if(base, options->given("set") ? std::optional(changed) : std::nullopt, !options->flag("no-ranking"));
  }();
  output.write(report_of(answer));
  return answer.base.answer.planned.prediction.footprint.fits ? 0 : 1;
}

}  // namespace onchip
