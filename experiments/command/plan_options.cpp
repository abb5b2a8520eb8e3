// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/plan_options.hpp"

#include "model/answer/constraint_words.hpp"

#include <algorithm>

namespace onchip {
namespace {

std::string option_name(std::string_view field) {
  std::string name(field);
  std::ranges::replace(name, '_', '-');
  return name;
}

}  // namespace

OptionGroup plan_options() {
  std::vector<OptionRow> options{{"family", "NAME",
                                  "Take a plan of " + family_names(true) +
                                      " (default: auto, the fastest); predict and measure: or a library's, " +
                                      family_names(false) + "."}};
  for (const FixableField& field : fixable_fields()) {
    options.push_back({option_name(field.name), std::string(field.argument), field.help});
  }
  options.push_back({"tier", "KIND",
                     "Keep weights in registers, or at most in shared_memory, or else streamed from L2 (default: "
                     "streamed; fit: shared_memory)."});
  return option_group("Plan (the planner chooses what is left out)", options);
}

Constraints read_constraints(const Options& options) {
  Constraints constraints;
  const bool trains = options.text("mode") == "train";  // which has families of its own
  if (const std::string family = options.text("family"); !trains && !family.empty() && family != "auto") {
    constraints.family = find_family(family).name;
  }
  for (const FixableField& field : fixable_fields()) {
    if (const std::string option = option_name(field.name); options.given(option)) {
      fix_field(constraints, field.name, options.text(option), "--" + option);
    }
  }
  if (options.given("tier")) {
    constraints.tier = parse_tier(options.text("tier"));
  }
  return constraints;
}

}  // namespace onchip
