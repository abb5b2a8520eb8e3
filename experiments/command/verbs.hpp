// SPDX-License-Identifier: Apache-2.0
// The verbs of the `onchip` command. Each stands in a file of its own. run() takes what follows its name on the command
// line and returns the exit status: 0 done, 1 the answer is no. Bad input is an InputError, for main to print.
#pragma once

#include "experiments/command/options.hpp"

#include <array>
#include <string_view>
#include <vector>

namespace onchip {

struct Verb {
  std::string_view name, sentence, example;
  std::vector<OptionGroup> (*options)();
  int (*run)(const Options& options);
  const char* bare = "";  // the option that words without one belong to; "": none may be
};

extern const Verb kChipsVerb, kFitVerb, kPredictVerb, kSimulateVerb, kWhatIfVerb, kSweepVerb, kParetoVerb, kMeasureVerb,
    kTuneVerb, kCalibrateVerb, kValidateVerb, kReproduceVerb, kReportVerb, kExploreVerb, kStampVerb;

inline constexpr std::array kVerbs{&kChipsVerb,    &kFitVerb,       &kPredictVerb, &kSimulateVerb, &kWhatIfVerb,
                                   &kSweepVerb,    &kParetoVerb,    &kMeasureVerb, &kTuneVerb,     &kCalibrateVerb,
                                   &kValidateVerb, &kReproduceVerb, &kReportVerb,  &kExploreVerb,  &kStampVerb};

}  // namespace onchip
