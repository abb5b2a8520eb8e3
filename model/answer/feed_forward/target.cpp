// SPDX-License-Identifier: Apache-2.0
// What must a chip have at least, so that a feed-forward network stays on it, or an inference is quick enough?
#include "model/answer/feed_forward/feed_forward.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <array>

namespace onchip {

FeedForwardTarget reach(const ExaminedNetwork& network, const Activity& activity, int gpus,
                        const TargetQuestion& question) {
  constexpr std::array kKeys{"shared_memory.per_sm", "sm.count", "library.l2_bandwidth"};
  const std::optional<double> ms = question.target.ms;
  if (question.target.hidden > 0 || question.target.step_us) {
    throw InputError("target: hidden and step_us are of recurrent networks; expected ms<=T");
  }
  const auto answer_of = [&](const ChipFile& chip) { return answer(chip, network, activity, gpus); };
  std::vector<std::string> vary = question.vary;
  if (vary.empty()) {  // to stay on the chip takes shared memory
    vary.assign(kKeys.begin(), ms ? kKeys.end() : kKeys.begin() + 1);
  }
  const ReachedOf<ChipFile> found =
      find_least({question.base.chip, vary, question.prices, [&](const ChipFile& chip) {
                    const FeedForwardAnswer one = answer_of(chip);
                    return ms           ? (one.runs() ? 1e-3 * one.price.us / *ms - 1 : kDoesNotFit)
                           : one.fits() ? 0
                                        : kDoesNotFit * std::max(1.0, one.shared_needed / one.shared_available);
                  }});
  return {with_answers<FeedForwardAnswer>(found, answer_of), question.target};
}

Json to_json(const FeedForwardTarget& target, const ExaminedNetwork& network, const Activity& activity) {
  const std::optional<double> ms = target.target.ms;
  return reached_json(
      {{"fits", !ms}, {"ms", ms ? Json(*ms) : Json()}},
      with_answers<Json>(target, [&](const FeedForwardAnswer& one) { return to_json(one, network, activity); }));
}

}  // namespace onchip
