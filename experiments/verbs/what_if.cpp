// SPDX-License-Identifier: Apache-2.0
// onchip what-if: the same network on a changed chip, and which chip numbers its answer hangs on; or, backwards, what
// the chip must have to reach a target.
#include "experiments/command/plan_options.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/feed_forward/answers.hpp"
#include "experiments/feed_forward/questions.hpp"
#include "experiments/reports/recurrent_report.hpp"
#include "experiments/reports/target_report.hpp"
#include "experiments/reports/what_if_report.hpp"
#include "experiments/verbs/question.hpp"

namespace onchip {
namespace {

std::vector<OptionGroup> what_if_options() {
  const OptionGroup ranking = option_group(
      "Ranking",
      {{"no-ranking", "",
        "Leave out which of the chip's numbers matter and what one more of them buys, which takes the longest."}});
  const OptionGroup backwards = option_group(
      "Backwards: what must the chip have at least?",
      {{"target", "TARGET...",
        "Ask for a network that fits, hidden=8192, or for a faster step, \"step_us<=2\", or inference, \"ms<=5\" with "
        "--network; repeatable (default: that the network fits)."},
       {"vary", "KEY...",
        "Find the least of this number of the chip that reaches the target, and of two what more of one saves of the "
        "other; repeatable (default: sm.count, registers.per_sm and shared_memory.per_sm, each alone; with --network "
        "shared_memory.per_sm, and for a time sm.count and library.l2_bandwidth)."},
       {"price", "KEY=NUMBER/UNIT...",
        "Find the cheapest of these, by what one more unit of a number costs, e.g. shared_memory.per_sm=1/KiB; "
        "repeatable."}});
  return {chip_options(), network_options(),       plan_options(),     granule_option(),       backwards,
          ranking,        whole_network_options(), training_options(), feed_forward_options(), output_options()};
}

int run_what_if(const Options& options) {
  const auto targets = options.list("target"), vary = options.list("vary"), prices = options.list("price");
  const bool is_backwards = !targets.empty() || !vary.empty() || !prices.empty();
  Output output(options);
  const Question base = read_questions(options, is_backwards ? read_chip(options) : read_base_chip(options),
                                       {.hidden = false,
                                        .stacks = true,
                                        .recurrent = {network_options(), plan_options(), granule_option(),
                                                      whole_network_options(), training_options()}})
                            .front();
  const auto write_answer = [&](const char* doing, const auto& answer_of) {
    return std::visit(
        [&](const auto& of) {
          std::optional<Waiting> waiting(doing);
          const auto answer = answer_of(of);
          waiting.reset();
          return write(output, answer);
        },
        base);
  };
  if (is_backwards) {
    const TargetQuestion target = target_question(targets, vary, prices);
    return write_answer("seeking the least", [&](const auto& of) { return reach(of, target); });
  }
  return write_answer("comparing",
                      [&](const auto& of) { return what_if(of, options.list("set"), !options.flag("no-ranking")); });
}

}  // namespace

const Verb kWhatIfVerb{
    "what-if",
    "Compare a chip with a changed one, rank the numbers that matter, or find the least that reaches a target.",
    "onchip what-if --hidden 2304 --density 30% --set sm.count=+20% --set sm.clock=\"2.2 GHz\"", what_if_options,
    run_what_if};

}  // namespace onchip
