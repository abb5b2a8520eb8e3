// SPDX-License-Identifier: Apache-2.0
// What a verb is asked, of whichever workload its options name.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/training/answers.hpp"
#include "model/ask/question.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <type_traits>
#include <vector>

namespace onchip {

struct QuestionNeeds {
  bool hidden = true;                  // a size of recurrent networks, or a file; else the largest may be asked for
  bool all_families = false;           // libraries' too, and --plan all
  bool checkpoints = false;            // each tensor of --weights where several can be meant
  bool stacks = false;                 // --layers asks about a stack that is on the SMs at once
  std::vector<OptionGroup> recurrent;  // options that have no meaning beside --network
};
// A feed-forward network by --network, a training by --mode train, else a step of a recurrent network. Throws
// InputError.
std::vector<Question> read_questions(const Options& options, const ChipFile& chip, const QuestionNeeds& needs);

// Writes an answer; the exit status.
template <typename Answer>
int write(Output& output, const Answer& answer) {
  output.write(report_of(answer));
  return answer.is_yes() ? 0 : 1;
}
inline int write(Output& output, const TrainingAnswer& answer) {  // of whatever trains it, a library as well
  output.write(report_of(answer));
  return 0;
}

// What `answer(question)` says of each layer and direction of a checkpoint.
template <typename Answer>
int write_each(Output& output, const std::vector<Question>& questions, Answer&& answer) {
  std::vector<std::decay_t<decltype(answer(std::get<RecurrentQuestion>(questions[0])))>> answers;
  std::ranges::transform(questions, std::back_inserter(answers),
                         [&](const Question& one) { return answer(std::get<RecurrentQuestion>(one)); });
  output.write(report_of(std::span<const typename decltype(answers)::value_type>(answers)));
  return std::ranges::all_of(answers, [](const auto& one) { return one.is_yes(); }) ? 0 : 1;
}

}  // namespace onchip
