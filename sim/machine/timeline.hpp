// SPDX-License-Identifier: Apache-2.0
// What happens when, as Chrome trace events (JSON): opens in Perfetto (ui.perfetto.dev) and in chrome://tracing.
#pragma once

#include "sim/machine/sm.hpp"

#include <string>
#include <vector>

namespace onchip {

struct TimelineSpan {
  int process = 0, thread = 0;  // rows of the picture
  std::string name;
  double begin_us = 0, us = 0;
};

// Names of processes, by number; threads are called "warp N" or "SM N" by `thread_names`, one for each process.
struct Timeline {
  std::vector<std::string> process_names, thread_names;
  std::vector<TimelineSpan> spans;
};
std::string to_chrome_trace(const Timeline& timeline);

// Of a run with recorded events: for every warp, stretches of instructions of one kind.
std::vector<TimelineSpan> warp_spans(const BlockTrace& block, const SmRun& run, int process, double us_per_cycle);

}  // namespace onchip
