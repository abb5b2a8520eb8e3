// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/timing.hpp"

#include "model/base/units.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>

namespace onchip {
namespace {

double machine_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A way while it is timed.
class Timed {
 public:
  Timed(Way& way, const TimingOptions& options, const std::function<double()>& seconds)
      : way_(way), options_(options), seconds_(seconds) {}

  bool is_done() const { return !way_.sample; }
  const Way& way() const { return way_; }
  double warm_time() const { return last_.front(); }

  void warm_up() {
    for (int i = 0; !is_done() && i < options_.most_warm_ups; ++i) {
      run();
      if (is_done()) {
        return;
      }
      if (spent_s_ > options_.longest_s) {
        finish_with_last("one sample, its first: it took " + fixed(spent_s_, 1) + " s");
      } else if (spent_s_ > options_.longest_s / 6) {  // the rest of the time is for samples
        break;
      }
    }
  }

  // What it took to warm up is its only sample.
  void finish_with_last(const std::string& why) {
    way_.note = why;
    keep();
    finish();
  }

  void take_sample() {
    run();
    if (is_done()) {
      return;
    }
    keep();
    // Looked at the less often the more there are: sorting them takes time.
    const std::size_t count = samples_.front().size();
    const bool is_known = count % (1 + count / 16) == 0 && summarize(samples_.front()).within <= options_.within;
    if (!is_known && spent_s_ > options_.longest_s && static_cast<int>(count) < options_.most_samples) {
      way_.note = std::to_string(count) + " samples took " + fixed(spent_s_, 1) + " s";
      finish();
    } else if (is_known || static_cast<int>(count) >= options_.most_samples) {
      finish();
    }
  }

 private:
  void run() {
    const double begin = seconds_();
    try {
      last_ = way_.sample();
    } catch (const std::exception& error) {
      way_.failure = error.what();
      samples_.clear();
      finish();
    }
    spent_s_ += seconds_() - begin;
  }

  void keep() {
    samples_.resize(last_.size());
    for (std::size_t i = 0; i < last_.size(); ++i) {
      samples_[i].push_back(last_[i]);
    }
  }

  void finish() {
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      (i == 0 ? way_.time : way_.parts.emplace_back()) = summarize(samples_[i]);
    }
    way_.sample = {};
  }

  Way& way_;
  const TimingOptions& options_;
  const std::function<double()>& seconds_;
  double spent_s_ = 0;
  std::vector<double> last_;
  std::vector<std::vector<double>> samples_;  // of the time, then of each part
};

}  // namespace

void time_ways(std::span<Way> ways, const TimingOptions& options) {
  const std::function<double()> seconds = options.seconds ? options.seconds : machine_seconds;
  std::vector<Timed> timed;
  for (Way& way : ways) {
    if (way.failure.empty()) {
      timed.emplace_back(way, options, seconds).warm_up();
    }
  }
  const auto warm_time = [](const Timed& one) { return one.is_done() ? one.way().time.median : one.warm_time(); };
  for (Timed& one : timed) {
    if (one.is_done() || one.way().library.empty()) {
      continue;
    }
    double fastest = one.warm_time();
    for (const Timed& other : timed) {
      if (other.way().library == one.way().library && other.way().failure.empty()) {
        fastest = std::min(fastest, warm_time(other));
      }
    }
    if (one.warm_time() > options.hopeless * fastest) {
      one.finish_with_last("one sample: it took " + fixed(one.warm_time() / fastest, 1) +
                           " times as long as the fastest of its library");
    }
  }
  for (bool is_any_left = true; is_any_left;) {
    is_any_left = false;
    for (Timed& one : timed) {
      if (!one.is_done()) {
        one.take_sample();
        is_any_left = true;
      }
    }
  }
}

bool is_fastest_of_library(std::span<const Way> ways, const Way& way) {
  return way.ran() && std::ranges::none_of(ways, [&](const Way& other) {
           return !way.library.empty() && other.library == way.library && other.ran() &&
                  other.time.median < way.time.median;
         });
}

}  // namespace onchip
