// SPDX-License-Identifier: Apache-2.0
// onchip predict: the analytic model's answer for one workload; with --plan all, of every family, and why it lost.
#include "experiments/command/plan_options.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/feed_forward/answers.hpp"
#include "experiments/feed_forward/questions.hpp"
#include "experiments/reports/rank_report.hpp"
#include "experiments/reports/recurrent_report.hpp"
#include "experiments/stream/streams.hpp"
#include "experiments/training/answers.hpp"
#include "experiments/verbs/question.hpp"
#include "model/base/error.hpp"

namespace onchip {
namespace {

std::vector<OptionGroup> predict_options() {
  return {chip_options(),      network_options(),  whole_network_options(), stream_options(), plan_options(),
          whole_plan_option(), training_options(), feed_forward_options(),  output_options()};
}

int run_predict(const Options& options) {
  Output output(options);
  if (options.flag("stream")) {
    output.write(report_of({predict(read_chip(options).chip, read_stream(options), options.text("plan"))}));
    return 0;
  }
  const std::vector<Question> questions =
      read_questions(options, read_chip(options),
                     {.all_families = true,
                      .checkpoints = true,
                      .recurrent = {network_options(), whole_network_options(), plan_options()}});
  const Question& question = questions.front();
  const auto* step = std::get_if<RecurrentQuestion>(&question);
  const std::optional<Stack> stack = step ? read_stack(options) : std::nullopt;
  if (questions.size() > 1) {
    if (options.text("plan") == kAllPlans) {
      throw InputError("--plan all compares the steps of one tensor: name it by --tensor");
    }
    return write_each(output, questions, [](const RecurrentQuestion& of) { return predict(of); });
  }
  if (options.text("plan") == kAllPlans) {
    if (stack) {
      throw InputError("--plan all compares steps: leave --layers, --bidirectional and --input out");
    }
    if (options.given("family") && options.text("family") != "auto") {
      throw InputError("--family contradicts --plan all, which compares them");
    }
    return std::visit([&](const auto& of) { return write(output, rank(of)); }, question);
  }
  if (stack) {
    return write(output, predict(*step, *stack));
  }
  return std::visit([&](const auto& of) { return write(output, predict(of)); }, question);
}

}  // namespace

const Verb kPredictVerb{"predict", "Predict how long one time step takes, and its bottleneck.",
                        "onchip predict --hidden 2304 --density 30% --batch 4", predict_options, run_predict};

}  // namespace onchip
