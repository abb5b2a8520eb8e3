// SPDX-License-Identifier: Apache-2.0
// The register model against the compiler: no spill wherever the model says that a plan fits, and not much more fits
// than it says. Needs no GPU.
#include "kernels/program.hpp"
#include "model/chip.hpp"
#include "model/footprint.hpp"
#include "model/planner.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/register_shapes.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace onchip {
namespace {

namespace fs = std::filesystem;

// The number of weight words for which the model says that the registers suffice.
int allowed_words(const Case& c) {
  return register_cap(c) - working_registers(c.network, c.plan, c.architecture);
}

bool spills(const Case& c) {
  const ResourceReport report = compile(compile_request(c.network, c.plan, c.architecture)).resources;
  return report.spill_bytes > 0 || report.stack_bytes > 0;  // weights on the stack count as no spill, but are as slow
}

// A cache of its own, so that the compiler of today answers.
class EmptyCache {
 public:
  EmptyCache() : path_(fs::temp_directory_path() / ("onchip-registers-" + std::to_string(getpid()))) {
    if (const char* value = std::getenv("ONCHIP_CACHE")) {
      before_ = value;
    }
    setenv("ONCHIP_CACHE", path_.c_str(), 1);
  }
  ~EmptyCache() {
    before_.empty() ? unsetenv("ONCHIP_CACHE") : setenv("ONCHIP_CACHE", before_.c_str(), 1);
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  EmptyCache(const EmptyCache&) = delete;
  EmptyCache& operator=(const EmptyCache&) = delete;

 private:
  fs::path path_;
  std::string before_;
};

// Of each, whether it spills; over all cores.
std::vector<bool> all_spills(const std::vector<Case>& cases) {
  std::vector<char> spilled(cases.size());
  std::atomic<std::size_t> next{0};
  {
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
      workers.emplace_back([&] {
        for (std::size_t k; (k = next++) < cases.size();) {
          spilled[k] = spills(cases[k]);
        }
      });
    }
  }
  return {spilled.begin(), spilled.end()};
}

// What is wanted is no spill at all, and that all are within 8. What holds is less (model/registers.cpp); these bars
// keep it from getting worse. Plans that spill are refused when they are loaded.
TEST_CASE("of plans that the register model has not seen, most are within 8 words of what compiles", "[slow]") {
  constexpr std::uint32_t kSeed = 2026;  // not one that was probed
  constexpr std::size_t kPlans = 40;
  constexpr int kMostSpillPercent = 10, kLeastWithinPercent = 65;
  const EmptyCache cache;
  std::vector<Case> allowed, beyond;
  for (const Case& c : planned_cases(kSeed, kPlans)) {
    const int words = allowed_words(c);
    const Case least = with_words(c, 0);
    if (register_words(least.network, least.plan) <= words) {
      // A pair of fp32 values takes three words: of the plans that hold more, the next.
      constexpr int kMore = 9;
      allowed.push_back(with_words(c, words));
      beyond.push_back(with_words(c, words + kMore + (c.network.precision == Precision::fp32 ? 2 : 0)));
    }
  }
  const std::vector<bool> spilled = all_spills(allowed), spilled_beyond = all_spills(beyond);
  std::size_t spills = 0, within = 0;
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    spills += spilled[i];
    within += !spilled[i] && spilled_beyond[i];
    if (spilled[i] || !spilled_beyond[i]) {
      UNSCOPED_INFO((spilled[i] ? "spills: " : "too careful: ") << describe(allowed[i]));
    }
  }
  CAPTURE(spills, within, allowed.size());
  CHECK(allowed.size() > kPlans / 2);
  CHECK(100 * spills <= kMostSpillPercent * allowed.size());
  CHECK(100 * within >= kLeastWithinPercent * allowed.size());
}

TEST_CASE("the largest networks that fit on the chips of four architectures compile without a spill", "[slow]") {
  const EmptyCache cache;
  std::vector<Case> largest;
  for (const std::string_view architecture : kArchitectures) {
    const Chip chip = chip_of(architecture);
    for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
      for (const int batch : largest.size() / 2 % 2 == 0 ? std::array{1, 8} : std::array{4, 16}) {
        const double density = largest.size() % 2 == 0 ? 0.05 : 0.3;
        const Capacity capacity = find_capacity(chip, {Cell::relu, precision, 1, batch, 1, density}, 32);
        REQUIRE(capacity.largest);
        largest.push_back({capacity.largest->network, capacity.largest->plan, chip.architecture});
      }
    }
  }
  const std::vector<bool> spilled = all_spills(largest);
  for (std::size_t i = 0; i < largest.size(); ++i) {
    INFO(describe(largest[i]));
    CHECK_FALSE(spilled[i]);
  }
}

}  // namespace
}  // namespace onchip
