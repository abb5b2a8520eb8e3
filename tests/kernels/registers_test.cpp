// SPDX-License-Identifier: Apache-2.0
// The register model against the compiler: no spill wherever the model says that a plan fits, and not much more fits
// than it says. Needs no GPU.
#include "kernels/persistent_kernel.hpp"
#include "model/chip.hpp"
#include "model/footprint.hpp"
#include "model/planner.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/register_shapes.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

namespace onchip {
namespace {

namespace fs = std::filesystem;

// The number of weight words for which the model says that the registers suffice.
int allowed_words(const Shape& shape, std::string_view architecture) {
  const Case any = with_words(shape, 8 * shape.rows_per_group);
  return register_cap(shape) - working_registers(any.network, any.plan, architecture);
}

bool spills(const Case& c, const std::string& architecture) {
  const ResourceReport report = compile(compile_request(c.network, c.plan, architecture)).resources;
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

struct Pair {
  Shape shape;
  const char* architecture;
};

std::vector<Pair> pairs_of(const std::vector<Shape>& shapes) {
  std::vector<Pair> pairs;
  for (const Shape& shape : shapes) {
    for (const char* architecture : kArchitectures) {
      pairs.push_back({shape, architecture});
    }
  }
  return pairs;
}

// Some of the shapes that the model was fitted to, and others.
std::vector<Shape> fitted_shapes() {
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < std::size(kChosenShapes); i += 5) {
    const Shape& shape = kChosenShapes[i];
    const Case any = with_words(shape, 8 * shape.rows_per_group);
    // Where one pass takes several of more than two planes the compiler follows no rule (model/registers.cpp).
    if (shape.pass_planes == 1 || planes(any.network, any.plan) == 2) {
      shapes.push_back(shape);
    }
  }
  return shapes;
}
std::vector<Shape> other_shapes() {
  constexpr int kSeed = 3;  // model/fit_registers.py has not seen it
  return random_shapes(kSeed, 12);
}

// Whether each pair spills with so many more words than the model allows; over all cores.
std::vector<bool> spills_with(const std::vector<Pair>& pairs, int more) {
  std::vector<char> spilled(pairs.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next++) < pairs.size();) {
      const Shape& shape = pairs[i].shape;
      // A pair of fp32 values takes three words: of the plans that hold more, the next.
      const int beyond = more > 0 && shape.precision == Precision::fp32 ? more + 2 : more;
      spilled[i] =
          spills(with_words(shape, allowed_words(shape, pairs[i].architecture) + beyond), pairs[i].architecture);
    }
  };
  {
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
      workers.emplace_back(work);
    }
  }
  return {spilled.begin(), spilled.end()};
}

// The compiler is not monotonic: a few numbers of weights spill where more do not. These are refused when they are
// loaded.
TEST_CASE("no plan spills where the register model says that it fits", "[slow]") {
  const EmptyCache cache;
  for (const auto& [name, shapes, most_percent] :
       {std::tuple("fitted", fitted_shapes(), 2), std::tuple("others", other_shapes(), 5)}) {
    const std::vector<Pair> pairs = pairs_of(shapes);
    const std::vector<bool> spilled = spills_with(pairs, 0);
    std::size_t spills = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const int words = allowed_words(pairs[i].shape, pairs[i].architecture);
      const Case least = with_words(pairs[i].shape, 0);
      if (spilled[i] && register_words(least.network, least.plan) <= words) {
        ++spills;
        UNSCOPED_INFO(describe(pairs[i].shape) << ": " << words << " words on " << pairs[i].architecture);
      }
    }
    CAPTURE(name, spills, pairs.size());
    CHECK(100 * spills <= most_percent * pairs.size());
  }
}

TEST_CASE("the largest networks that fit on the chips of four architectures compile without a spill", "[slow]") {
  const EmptyCache cache;
  for (const char* chip_name : {"a100", "h200", "b200", "rtx 4090"}) {
    const Chip chip = find_chip(chip_name).chip;
    for (const Precision precision : {fp16, bf16, fp32}) {
      for (const double density : {0.05, 0.3}) {
        for (const int batch : {1, 4, 8, 16}) {
          const Capacity capacity = find_capacity(chip, {Cell::relu, precision, 1, batch, 1, density}, 32);
          REQUIRE(capacity.largest);
          const Case largest{capacity.largest->network, capacity.largest->plan};
          INFO(chip_name << ", " << describe(largest.network) << ": " << to_string(largest.plan));
          CHECK_FALSE(spills(largest, chip.architecture));
        }
      }
    }
  }
}

// What is wanted is all of them. What holds is four in five of the shapes that the model was fitted to, and a third of
// others: where the compiler needs less than in the shapes beside it, the model is too careful. These bars only keep it
// from getting worse.
TEST_CASE("the register model is often within 8 weight words of what compiles without a spill", "[slow]") {
  const EmptyCache cache;
  for (const auto& [name, shapes, percent] :
       {std::tuple("fitted", fitted_shapes(), 75), std::tuple("others", other_shapes(), 30)}) {
    const std::vector<Pair> pairs = pairs_of(shapes);
    const std::vector<bool> spilled = spills_with(pairs, 9);
    std::size_t within = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      within += spilled[i];
      if (!spilled[i]) {
        UNSCOPED_INFO(describe(pairs[i].shape) << " on " << pairs[i].architecture << ": more than 8 too careful");
      }
    }
    CAPTURE(name, within, pairs.size());
    CHECK(100 * within >= percent * pairs.size());
  }
}

}  // namespace
}  // namespace onchip
