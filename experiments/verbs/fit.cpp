// SPDX-License-Identifier: Apache-2.0
// onchip fit: does a network stay on the chip, and how large may it be?
#include "experiments/command/plan_options.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/command/report.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/feed_forward/answers.hpp"
#include "experiments/feed_forward/questions.hpp"
#include "experiments/measurement/configuration.hpp"
#include "experiments/training/answers.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "kernels/runtime/compiler.hpp"
#endif

namespace onchip {
namespace {

OptionGroup fit_options() {
  OptionGroup group = option_group("Check");
  // clang-format off
  group.add_options()
      ("compile", "Let the compiler have the last word, for the chip's architecture as it is; no GPU is needed. Of plans "
       "that it spills, the next is taken that it keeps; where it keeps none, the network does not fit.");
  // clang-format on
  return group;
}

// The architecture whose compiler has the last word; "": the model has it.
std::string deciding_compiler([[maybe_unused]] const Chip& chip, bool compiles) {
  if (!compiles) {
    return "";
  }
#ifdef ONCHIP_HAS_CUDA
  if (chip.architecture.empty()) {
    throw InputError("no compiler target is known for the " + chip.name + ": leave --compile out");
  }
  return chip.architecture;
#else
  throw InputError("built without CUDA: --compile needs a CUDA toolkit when onchip is configured");
#endif
}

// Adds to an answer who compiled it.
void name_compiler([[maybe_unused]] Report& report, [[maybe_unused]] const Chip& chip) {
#ifdef ONCHIP_HAS_CUDA
  report.json["compiled"] = {{"architecture", chip.architecture}, {"compiler", compiler_version()}};
  report.text += "\nCompiled for " + chip.architecture + " by " + compiler_version() + ".\n";
#endif
}

std::string to_text(const std::vector<Remedy>& remedies) {
  std::string text;
  for (const Remedy& remedy : remedies) {
    text += "  - " + remedy.text + " (" + remedy.option + ")\n";
  }
  return text.empty() ? "" : "\nAny one of these makes it fit:\n" + text;
}

std::string to_text(const FitAnswer& answer, bool sized) {
  const std::string of_answer = to_text(answer.answer);
  if (sized) {
    return std::string(answer.fits() ? "It fits: " : "It does not fit: ") + of_answer + to_text(answer.to_fit) +
           (!answer.instead ? ""
                            : std::string(answer.fits() ? "\nQuicker than to keep all weights on the SMs"
                                                        : "\nThe quickest way to compute it all the same") +
                                  ":\n  " + instead_text(*answer.instead) + '\n');
  }
  if (answer.next &&
      answer.next->planned.prediction.footprint.fits) {  // the kernels' index, not the chip, is the limit
    return "The largest that the kernels can index: " + of_answer;
  }
  const PlannedNetwork& next = answer.next ? answer.next->planned : answer.answer.planned;
  const Footprint& over = next.prediction.footprint;
  const std::string reason = over.indexed_units > kMostIndexedUnits
                                 ? explain(over)
                                 : "does not fit: too little of " + std::string(info(over.binding).name);
  const std::string why = "H=" + std::to_string(next.network.hidden) + ' ' + reason + "\n\n" + resources_text(over) +
                          to_text(answer.to_fit);
  return answer.next ? "The largest that fits: " + of_answer + '\n' + why : "Not even " + why;
}

}  // namespace

int run_fit(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto options = parse_options(
      verb, arguments,
      {chip_options(), network_options(), plan_options(), whole_plan_option(), granule_option(), fit_options(),
       whole_network_options(), training_options(), feed_forward_options(), output_options()});
  if (!options) {
    return 0;
  }
  if (asks_feed_forward(*options, {network_options(), plan_options(), whole_plan_option(), granule_option(),
                                   fit_options(), whole_network_options(), training_options()})) {
    return fit_feed_forward(*options);
  }
  if (asks_training(*options)) {
    refuse_beside(*options, "mode", {fit_options()}, {});
    return fit_training(*options);
  }
  refuse_stack(*options);
  const Question question{read_chip(*options), read_configuration(*options, /*needs_hidden=*/false),
                          read_granule(*options)};
  const Chip& chip = question.chip.chip;
  const std::string compiler = deciding_compiler(chip, options->flag("compile"));
  Output output(*options);
  const FitAnswer answer = [&] {
    const Waiting waiting("seeking what fits");
    return fit(question, [&](const Chip& on, const Configuration& configuration, const RowProfile& rows) {
      return compiled_plan(on, configuration, rows, compiler);
    });
  }();
  Report report{to_text(answer, question.configuration.network.hidden > 0),
                {case_columns(), {case_cells(answer.answer, Binding::resource)}},
                to_json(answer)};
  if (!compiler.empty()) {
    name_compiler(report, chip);
  }
  output.write(report);
  return answer.fits() ? 0 : 1;
}

}  // namespace onchip
