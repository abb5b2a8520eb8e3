// SPDX-License-Identifier: Apache-2.0
// Processor time of this process, all threads together: what benchmarks divide by.
#pragma once

#include <ctime>

namespace onchip {

inline double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace onchip
