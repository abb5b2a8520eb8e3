// SPDX-License-Identifier: Apache-2.0
// Seconds that benchmarks take differences of.
#pragma once

#include <ctime>

namespace onchip {

inline double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
// Of a processor: of all threads of this process together, which other processes disturb little; of this thread.
inline double processor_seconds() {
  return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}
inline double thread_seconds() {
  return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}
inline double wall_seconds() {
  return seconds_of(CLOCK_MONOTONIC);
}

}  // namespace onchip
