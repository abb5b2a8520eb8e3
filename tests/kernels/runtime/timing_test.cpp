// SPDX-License-Identifier: Apache-2.0
// The loop that times, with ways that take their times from a list and a clock that they move.
#include "kernels/runtime/timing.hpp"

#include "model/base/random.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace onchip {
namespace {

struct FakeMachine {
  double now_s = 0;
  std::string runs;  // the first letters of the ways that ran

  TimingOptions options() {
    TimingOptions options;
    options.seconds = [this] { return now_s; };
    return options;
  }
  // A way that takes these seconds, the last of them again and again.
  Way way(const std::string& name, std::vector<double> takes, const std::string& library = "") {
    Way way{.name = name, .library = library};
    way.sample = [this, name, takes, i = std::size_t{0}]() mutable {
      const double seconds = takes[std::min(i++, takes.size() - 1)];
      now_s += seconds;
      runs += name[0];
      return std::vector{seconds, 2 * seconds};
    };
    return way;
  }
};

// Of a machine whose times scatter.
std::vector<double> scattered(double around, double by, int count, std::uint64_t seed) {
  Random random(seed, 0);
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(around * (1 + by * (2 * random.unit() - 1)));
  }
  return values;
}

TEST_CASE("ways warm up one after another, and then their samples are interleaved until each is known") {
  FakeMachine machine;
  // Warm-ups are no samples: the first four of each are far off.
  std::vector<Way> ways{machine.way("a", {9e-3, 9e-3, 9e-3, 9e-3, 1e-3}),
                        machine.way("b", {8e-3, 8e-3, 8e-3, 8e-3, 2e-3}), machine.way("c", {3e-3})};
  time_ways(ways, machine.options());
  CHECK(machine.runs == "aaaabbbbccccabcabcabcabcabcabc");
  for (std::size_t i = 0; i < ways.size(); ++i) {
    CAPTURE(i);
    CHECK(ways[i].ran());
    CHECK(ways[i].time.samples == 6);  // the fewest that tell an interval
    CHECK(ways[i].time.median == 1e-3 * static_cast<double>(i + 1));
    CHECK(ways[i].time.within == 0);
    REQUIRE(ways[i].parts.size() == 1);
    CHECK(ways[i].parts[0].median == 2 * ways[i].time.median);
    CHECK((ways[i].failure + ways[i].note).empty());
  }
}

TEST_CASE("a way stops by itself: once its median is within 1 %, or after as many samples as are allowed") {
  FakeMachine machine;
  std::vector<Way> ways{machine.way("calm", scattered(1e-3, 0.002, 200, 1)),
                        machine.way("rough", scattered(1e-3, 0.03, 200, 2)),
                        machine.way("wild", scattered(1e-3, 0.9, 200, 3))};
  TimingOptions options = machine.options();
  options.most_samples = 60;
  time_ways(ways, options);
  CHECK(ways[0].time.samples == 6);
  CHECK(ways[1].time.samples > 6);
  CHECK(ways[1].time.samples < 60);
  CHECK(ways[2].time.samples == 60);
  CHECK(ways[0].time.within <= 0.01);
  CHECK(ways[1].time.within <= 0.01);
  CHECK(ways[2].time.within > 0.01);
  // While others go on, those that are done take no turn.
  CHECK(machine.runs.ends_with("wwwwwwwwww"));
}

TEST_CASE("of times that scatter at random, the median that the loop stops at is within 1 % nine times of ten") {
  constexpr int kWays = 300;
  int near = 0;
  for (std::uint64_t seed = 0; seed < kWays; ++seed) {
    FakeMachine machine;
    std::vector<Way> ways{machine.way("w", scattered(1e-3, 0.02, 1000, seed))};
    TimingOptions options = machine.options();
    options.most_samples = 1000;
    time_ways(ways, options);
    REQUIRE(ways[0].time.within <= 0.01);
    near += std::abs(ways[0].time.median / 1e-3 - 1) <= 0.01;
  }
  CHECK(near > kWays * 9 / 10);
}

TEST_CASE("a way that fails keeps its reason, and the others go on") {
  FakeMachine machine;
  std::vector<Way> ways{machine.way("a", {1e-3}), machine.way("b", {1e-3}), machine.way("c", {1e-3}),
                        machine.way("d", {1e-3})};
  ways[0].sample = []() -> std::vector<double> { throw std::runtime_error("no memory"); };  // at once
  ways[1].sample = [inner = ways[1].sample, i = 0]() mutable {                              // after two samples
    if (++i > 6) {
      throw std::runtime_error("gave up waiting");
    }
    return inner();
  };
  ways[3].failure = "not installed";  // before
  time_ways(ways, machine.options());
  CHECK(ways[0].failure == "no memory");
  CHECK(ways[1].failure == "gave up waiting");
  CHECK(ways[3].failure == "not installed");
  for (const int failed : {0, 1, 3}) {
    CHECK_FALSE(ways[static_cast<std::size_t>(failed)].ran());
  }
  CHECK(ways[2].time.samples == 6);
  CHECK(!says(machine.runs, "d"));
}

TEST_CASE("what takes long warms up less and has few samples, and says so") {
  FakeMachine machine;
  std::vector<Way> ways{machine.way("slow", {0.9}), machine.way("endless", {20}), machine.way("fast", {1e-3})};
  time_ways(ways, machine.options());
  CHECK(machine.runs.starts_with("seffff"));
  CHECK(ways[0].time.samples == 3);
  CHECK(ways[0].note == "3 samples took 3.6 s");
  CHECK(ways[1].time.samples == 1);
  CHECK(ways[1].note == "one sample, its first: it took 20.0 s");
  CHECK(ways[2].time.samples == 6);
}

TEST_CASE("a library's call that cannot be its fastest has one sample") {
  FakeMachine machine;
  std::vector<Way> ways{machine.way("plain", {9e-3, 8e-3}, "cudnn"), machine.way("graph", {2e-3}, "cudnn"),
                        machine.way("other", {9e-3}, "cublas"), machine.way("kernel", {1e-3})};
  time_ways(ways, machine.options());
  CHECK(ways[0].time.samples == 1);
  CHECK(ways[0].time.median == 8e-3);
  CHECK(ways[0].note == "one sample: it took 4.0 times as long as the fastest of its library");
  CHECK(ways[1].time.samples == 6);
  CHECK(ways[2].time.samples == 6);
  CHECK(ways[3].time.samples == 6);
  const std::vector<bool> fastest{false, true, true, true};
  for (std::size_t i = 0; i < ways.size(); ++i) {
    CHECK(is_fastest_of_library(ways, ways[i]) == fastest[i]);
  }
}

TEST_CASE("what a way holds is released once it is done") {
  FakeMachine machine;
  auto memory = std::make_shared<int>(0);
  std::vector<Way> ways{machine.way("a", {1e-3})};
  ways[0].sample = [memory, inner = ways[0].sample] { return inner(); };
  time_ways(ways, machine.options());
  CHECK(memory.use_count() == 1);
}

}  // namespace
}  // namespace onchip
