// SPDX-License-Identifier: Apache-2.0
// How many shared-memory warp instructions the bank model counts per second of processor time on one core: the median
// of some runs, and the best. In vectors, as it counts where the processor can, and lane by lane, as it does elsewhere.
#include "sim/machine/banks.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <random>
#include <string_view>

namespace {

using namespace onchip;

constexpr int kInstructions = 1 << 14;
constexpr int kRuns = 51;
constexpr double kSeconds = 0.01;

// [kInstructions, 32]; `spread`: the lanes of a phase in different banks of random rows, else anywhere in 64 KiB.
std::vector<std::uint64_t> make_addresses(int width, bool spread) {
  std::mt19937 random(1);
  const int lanes = 128 / width;
  std::vector<std::uint64_t> addresses;
  for (int i = 0; i < kInstructions * 32; ++i) {
    const std::uint64_t unit = spread ? random() % 64 * lanes + i % lanes : random() % (65536 / width);
    addresses.push_back(unit * width);
  }
  return addresses;
}

void run(std::string_view pattern, int width, VectorCounter count_by_vectors) {
  const std::vector<std::uint64_t> addresses = make_addresses(width, pattern == "spread");
  BankModel model({}, count_by_vectors);
  BankCost cost;
  std::vector<double> rates;  // millions per second
  for (int i = 0; i < kRuns; ++i) {
    std::int64_t instructions = 0;
    const std::clock_t start = std::clock();
    double seconds = 0;
    while (seconds < kSeconds) {
      for (std::size_t k = 0; k < kInstructions; ++k) {
        cost += model.count({std::span(addresses).subspan(32 * k, 32), ~0u, width});
      }
      instructions += kInstructions;
      seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    }
    rates.push_back(static_cast<double>(instructions) / seconds * 1e-6);
  }
  std::ranges::sort(rates);
  std::printf("%-12s  %-6s %3d bits  median %6.1f, best %6.1f million instructions/s  conflict degree %.2f\n",
              count_by_vectors != nullptr ? "vectors" : "lane by lane", pattern.data(), 8 * width, rates[kRuns / 2],
              rates.back(), cost.conflict_degree());
}

}  // namespace

int main() {
  std::vector<VectorCounter> counters{nullptr};
  if (vector_counter() != nullptr) {
    counters.insert(counters.begin(), vector_counter());
  }
  for (const VectorCounter counter : counters) {
    for (const int width : {4, 8, 16}) {
      run("spread", width, counter);
      run("random", width, counter);
    }
  }
}
