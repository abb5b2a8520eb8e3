// SPDX-License-Identifier: Apache-2.0
#include "experiments/verbs/question.hpp"

#include "experiments/feed_forward/questions.hpp"
#include "experiments/training/answers.hpp"

#include <utility>

namespace onchip {

std::vector<Question> read_questions(const Options& options, const ChipFile& chip, const QuestionNeeds& needs) {
  if (asks_feed_forward(options, needs.recurrent)) {
    FeedForwardQuestion question = read_feed_forward(options);
    question.chip = chip;
    return {question};
  }
  const int granule = options.flag("granule") ? read_granule(options) : RecurrentQuestion{}.granule;
  if (asks_training(options)) {
    TrainingQuestion question = read_training_question(options, needs.hidden);
    question.chip = chip;
    question.granule = granule;
    return {question};
  }
  if (needs.stacks && read_stack(options)) {
    options.refuse({"plan"}, "is of one network: a stack that is on the chip at once has the fastest");
    return {stack_question(chip, read_stack_configuration(options, needs.hidden), *read_stack(options), granule)};
  }
  std::vector<Question> questions;
  for (Configuration& configuration :
       needs.checkpoints ? read_configurations(options, needs.hidden, needs.all_families)
                         : std::vector{read_configuration(options, needs.hidden, needs.all_families)}) {
    questions.emplace_back(RecurrentQuestion{chip, std::move(configuration), granule});
  }
  return questions;
}

}  // namespace onchip
