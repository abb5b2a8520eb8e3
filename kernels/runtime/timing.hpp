// SPDX-License-Identifier: Apache-2.0
// The one way to time. Each of several ways to compute the same warms up; then their samples are interleaved, so that
// what disturbs the machine disturbs all of them alike. A way stops by itself once its median is known well enough.
#pragma once

#include "model/base/statistics.hpp"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace onchip {

// A plan that runs, or a library's call.
struct Way {
  std::string name;           // "sparse_persistent"; of a library its name first: "cudnn PERSIST_STATIC B=8"
  std::string computes = {};  // that a sample is of: "a step in steady state"
  std::string settings = {};  // the plan's text, or what a library says of its call
  std::string library = {};   // of a library's: of those of one library only the fastest counts
  double preparation_s = 0;   // to make it, or to find that it refuses
  // Takes a sample, in the unit of the way: its time, and of what else is measured with it. What it throws is the way's
  // failure. Released, with all it holds, once the way is done.
  std::function<std::vector<double>()> sample = {};

  // Set by time_ways().
  Timing time = {};
  std::vector<Timing> parts = {};  // of what else
  std::string failure = {};        // why it has no time; of a way that has one before it is timed there are no samples
  std::string note = {};           // why its samples are few

  bool ran() const { return time.samples > 0; }
};

struct TimingOptions {
  int most_samples = 30;
  double within = 0.01;   // enough: the median's 95 % interval reaches no farther, as a share of the median
  int most_warm_ups = 4;  // fewer of what takes long
  double longest_s = 3;   // a way takes no sample beyond its first after so long
  double hopeless = 2.5;  // times the fastest of its library: cannot be the fastest by chance, one sample is enough
  std::function<double()> seconds = {};  // the clock; empty: the machine's
};

void time_ways(std::span<Way> ways, const TimingOptions& options);

// Of those of each library that ran, the fastest; of others, each.
bool is_fastest_of_library(std::span<const Way> ways, const Way& way);

}  // namespace onchip
