// SPDX-License-Identifier: Apache-2.0
// What a verb is asked, of whichever workload its options name.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/training/answers.hpp"
#include "model/ask/question.hpp"

#include <vector>

namespace onchip {

struct QuestionNeeds {
  bool hidden = true;                  // a size of recurrent networks, or a file; else the largest may be asked for
  bool all_families = false;           // libraries' too, and --plan all
  std::vector<OptionGroup> recurrent;  // options that have no meaning beside --network
};
// A feed-forward network by --network, a training by --mode train, else a step of a recurrent network. Throws
// InputError.
Question read_question(const Options& options, const ChipFile& chip, const QuestionNeeds& needs);

// Writes an answer; the exit status.
template <typename Answer>
int write(Output& output, const Answer& answer) {
  output.write(report_of(answer));
  return answer.fits() ? 0 : 1;
}
inline int write(Output& output, const TrainingAnswer& answer) {  // of whatever trains it, a library as well
  output.write(report_of(answer));
  return 0;
}

}  // namespace onchip
