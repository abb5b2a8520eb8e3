// SPDX-License-Identifier: Apache-2.0
// onchip fit: does a network stay on the chip, and how large may it be?
#include "experiments/command/plan_options.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/feed_forward/answers.hpp"
#include "experiments/feed_forward/questions.hpp"
#include "experiments/measurement/configuration.hpp"
#include "experiments/reports/recurrent_report.hpp"
#include "experiments/training/answers.hpp"
#include "experiments/verbs/question.hpp"
#include "model/base/error.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "kernels/runtime/compiler.hpp"
#endif

namespace onchip {
namespace {

OptionGroup fit_options() {
  return option_group(
      "Check",
      {{"compile", "",
        "Let the compiler have the last word, for the chip's architecture as it is; no GPU is needed. Of plans that it "
        "spills, the next is taken that it keeps; where it keeps none, the network does not fit."}});
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

std::vector<OptionGroup> all_fit_options() {
  return {chip_options(), network_options(),       plan_options(),     whole_plan_option(),    granule_option(),
          fit_options(),  whole_network_options(), training_options(), feed_forward_options(), output_options()};
}

int run_fit(const Options& options) {
  Output output(options);
  const std::vector<Question> questions =
      read_questions(options, read_chip(options),
                     {.hidden = false,
                      .checkpoints = true,
                      .stacks = true,
                      .recurrent = {network_options(), plan_options(), granule_option(), fit_options(),
                                    whole_network_options(), training_options()}});
  const Question& question = questions.front();
  const auto* step = std::get_if<RecurrentQuestion>(&question);
  if (step == nullptr) {
    refuse_beside(options, "mode", {fit_options()});
    return std::visit([&](const auto& of) { return write(output, fit(of)); }, question);
  }
  const Chip& chip = step->chip.chip;
  const std::string compiler = deciding_compiler(chip, options.flag("compile"));
  const auto answer_of = [&](const RecurrentQuestion& of) {
    const Waiting waiting("seeking what fits");
    return fit(of, [&](const Chip& on, const Configuration& configuration, const RowProfile& rows) {
      return compiled_plan(on, configuration, rows, compiler);
    });
  };
  if (questions.size() > 1) {
    return write_each(output, questions, answer_of);
  }
  const FitAnswer answer = answer_of(*step);
  Report report = report_of(answer);
  if (!compiler.empty()) {
    name_compiler(report, chip);
  }
  output.write(report);
  return answer.is_yes() ? 0 : 1;
}

}  // namespace

const Verb kFitVerb{"fit", "Say whether a network stays on the chip or, without --hidden, how large one can be.",
                    "onchip fit --chip h200 --density 10% --batch 4", all_fit_options, run_fit};

}  // namespace onchip
