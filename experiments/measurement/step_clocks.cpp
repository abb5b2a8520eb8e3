// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/step_clocks.hpp"

#include <algorithm>

namespace onchip {

StepClocks measure_step_clocks(const Layout& layout, Sequences sequences) {
  constexpr int kWarmUpSteps = 16;
  constexpr std::size_t kMarks = kStepMarks.size();
  PersistentKernel kernel(layout, {}, kClockedSteps, Work::clocked);
  const Stream stream;
  sequences.steps = kClockedSteps;
  kernel.enqueue(stream.get(), sequences);
  stream.synchronize();
  kernel.check_status();

  const std::vector<std::uint32_t> clocks = kernel.record();
  const std::size_t sms = kernel.shape().recorded_sms, warps = kernel.shape().recorded_warps;
  const std::size_t per_step = sms * warps * kMarks;
  StepClocks result;
  for (std::size_t step = kWarmUpSteps; step < kClockedSteps; ++step) {
    for (std::size_t sm = 0; sm < sms; ++sm) {
      std::array<double, kMarks> slowest{};
      for (std::size_t warp = 0; warp < warps; ++warp) {
        const std::size_t first = step * per_step + (sm * warps + warp) * kMarks;
        for (std::size_t mark = 0; mark < kMarks; ++mark) {
          const std::uint32_t before = clocks[mark == 0 ? first - per_step + kMarks - 1 : first + mark - 1];
          const double cycles = clocks[first + mark] - before;  // modulo 2^32, as the clock counts
          result.mean[mark] += cycles / static_cast<double>(warps);
          slowest[mark] = std::max(slowest[mark], cycles);
        }
      }
      for (std::size_t mark = 0; mark < kMarks; ++mark) {
        result.slowest[mark] += slowest[mark];
      }
    }
  }
  for (std::size_t mark = 0; mark < kMarks; ++mark) {
    result.mean[mark] /= static_cast<double>(kClockedSteps - kWarmUpSteps) * static_cast<double>(sms);
    result.slowest[mark] /= static_cast<double>(kClockedSteps - kWarmUpSteps) * static_cast<double>(sms);
  }
  return result;
}

}  // namespace onchip
