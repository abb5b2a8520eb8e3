// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/timed_baselines.hpp"

#include "model/base/table.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace onchip {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Times the fastest of its library: cannot be the fastest by chance, and the warm-up remains its only sample.
constexpr double kHopeless = 2.5;

}  // namespace

void TimedBaselines::Entry::refuse(const std::string& reason) {
  baseline.reset();
  result.ran = false;
  result.refusal = reason;
  step_us.clear();
}

TimedBaselines::TimedBaselines(const std::vector<BaselineCandidate>& candidates, const Recurrent& network,
                               const SparseMatrix& matrix, const Wanted& wanted,
                               const std::function<void(const std::string&)>& say) {
  using Clock = std::chrono::steady_clock;
  for (const BaselineCandidate& candidate : candidates) {
    if (!wanted(candidate)) {
      continue;
    }
    Entry& entry = entries_.emplace_back();
    entry.result.name = candidate.name;
    entry.library = candidate.library();
    say("preparing " + candidate.name);
    const Clock::time_point begin = Clock::now();
    try {
      entry.baseline = make_baseline(candidate, network, matrix);
      entry.result.settings = entry.baseline->settings();
      entry.result.ran = true;
    } catch (const BaselineRefusal& refusal) {
      entry.refuse(refusal.what());
    }
    entry.result.preparation_s = std::chrono::duration<double>(Clock::now() - begin).count();
  }
}

void TimedBaselines::run_each(const Stream& stream, bool warm_up) {
  for (Entry& entry : entries_) {
    if (!entry.baseline) {
      continue;
    }
    try {
      double& fastest_us = fastest_us_.try_emplace(entry.library, kNever).first->second;
      if (!warm_up && entry.warm_up_us > kHopeless * fastest_us) {
        entry.step_us = {entry.warm_up_us};
        entry.result.note = "one sample: it took " + fixed(entry.warm_up_us / fastest_us, 1) +
                            " times as long as the fastest of its library";
        entry.baseline.reset();
        continue;
      }
      const std::vector<double> ms = time_ms(stream, 0, 1, [&](cudaStream_t on) { entry.baseline->enqueue(on); });
      const double step_us = 1e3 * ms[0] / entry.baseline->steps();
      if (warm_up) {
        entry.warm_up_us = step_us;
        fastest_us = std::min(fastest_us, step_us);
      } else {
        entry.step_us.push_back(step_us);
      }
    } catch (const CudaError& error) {
      entry.refuse(error.what());
    }
  }
}

std::vector<BaselineResult> TimedBaselines::results() const {
  std::vector<BaselineResult> results;
  for (const Entry& entry : entries_) {
    results.push_back(entry.result);
    results.back().step_us = summarize(entry.step_us);
  }
  return results;
}

}  // namespace onchip
