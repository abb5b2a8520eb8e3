// SPDX-License-Identifier: Apache-2.0
// The most weight words with which the compiler keeps everything in registers, shape by shape.
#include "experiments/registers/limits.hpp"
#include "experiments/registers/shape.hpp"
#include "experiments/registers/verbs.hpp"
#include "kernels/program.hpp"
#include "model/error.hpp"
#include "model/footprint.hpp"
#include "model/registers.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace onchip::registers {
namespace {

struct Limit {
  int words = 0, spilling_words = 0;
};

class Search {
 public:
  Search(Shape shape, std::string architecture) : shape_(std::move(shape)), architecture_(std::move(architecture)) {}

  Limit run(int first) {
    const int least = real_words(0);
    int fits = std::max(first, least), spills = fits;
    // Outwards from the guess, until the limit lies between two numbers of words, then inwards.
    constexpr int kStep = 6, kNarrow = 3, kLookedAt = 7;
    while (lacks(fits) > 0 && fits > least) {
      spills = fits;
      fits = std::max(least, fits - std::max(kNarrow, lacks(fits)));
    }
    while (lacks(spills) == 0) {
      fits = spills;
      spills += kStep;
    }
    while (spills - fits > kNarrow) {
      const int middle = std::clamp(spills - lacks(spills), fits + 1, (fits + spills) / 2);
      (lacks(middle) > 0 ? spills : fits) = middle;
    }
    // The compiler is not monotonic: fewer words may spill. So far below the limit every plan is looked at.
    for (int fewer = fits - 1; fewer >= std::max(least, fits - kLookedAt); --fewer) {
      if (lacks(fewer) > 0) {
        spills = fewer;
        fits = fewer - 1;
      }
    }
    Limit limit{fits < least ? 0 : real_words(fits), 0};
    for (int words = fits; limit.spilling_words <= limit.words || words < spills;) {
      limit.spilling_words = real_words(++words);
    }
    return limit;
  }

 private:
  int real_words(int words) const { return register_words(shape_.network, with_words(shape_, words)); }

  // About how many registers are missing; 0 where all is kept.
  int lacks(int words) {
    const Plan plan = with_words(shape_, words);
    const int real = register_words(shape_.network, plan);
    if (const auto known = known_.find(real); known != known_.end()) {
      return known->second;
    }
    return known_[real] = compile(compile_request(shape_.network, plan, architecture_)).resources.lacking_registers();
  }

  Shape shape_;
  std::string architecture_;
  std::map<int, int> known_;
};

void print_limit(const Shape& shape, std::size_t architecture, int& working) {
  const int available = room(shape, architecture);
  const Limit limit = Search(shape, kArchitectures[architecture]).run(available - working);
  working = limit.words > 0 ? available - limit.words : working;
  std::printf("%s,%s,%d,%d,%d\n", kArchitectures[architecture], text_of(shape).c_str(), available, limit.words,
              limit.spilling_words);
  std::fflush(stdout);
}

}  // namespace

int measure(const std::string& path, const std::string& part, const std::vector<std::string>& architectures) {
  std::size_t first = 0, step = 1;
  if (std::sscanf(part.c_str(), "%zu/%zu", &first, &step) != 2 || step == 0) {
    throw InputError("'" + part + "' is no PART/PARTS");
  }
  const CsvReader file(path);
  std::fprintf(stderr, "%s\n", compiler_version().c_str());
  std::puts(kLimitsHeader);
  for (std::size_t row = first; row < file.size(); row += step) {
    const Shape shape = read_shape(file, row);
    Plan plan = shape.plan;  // where exchange warps fetch the state, it takes no registers of those that compute
    plan.loads_in_flight = plan.exchange_warps > 0 ? 1 : plan.loads_in_flight;
    int working = working_registers(chip_of(1), shape.network, plan);
    for (const std::string& name : architectures) {
      const std::size_t architecture = architecture_of(name);
      constexpr int kFirstWithBulkCopies = 9;
      if (shape.plan.exchange != ExchangeProtocol::bulk_copy || kMajors[architecture] >= kFirstWithBulkCopies) {
        print_limit(shape, architecture, working);
      }
    }
  }
  return 0;
}

}  // namespace onchip::registers
