// SPDX-License-Identifier: Apache-2.0
// How many shared-memory warp instructions the bank model counts per second on one core.
#include "sim/banks.hpp"

#include <chrono>
#include <cstdio>
#include <random>
#include <string_view>

namespace {

using namespace onchip;

constexpr int kInstructions = 1 << 14;
constexpr double kSeconds = 0.5;

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

void run(std::string_view pattern, int width) {
  const std::vector<std::uint64_t> addresses = make_addresses(width, pattern == "spread");
  BankModel model({});
  BankCost cost;
  std::int64_t instructions = 0;
  const auto start = std::chrono::steady_clock::now();
  double seconds = 0;
  while (seconds < kSeconds) {
    for (std::size_t i = 0; i < kInstructions; ++i) {
      cost += model.count({std::span(addresses).subspan(32 * i, 32), ~0u, width});
    }
    instructions += kInstructions;
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::printf("%-7s %3d bits  %6.1f million instructions/s  conflict degree %.2f\n", pattern.data(), 8 * width,
              static_cast<double>(instructions) / seconds * 1e-6, cost.conflict_degree());
}

}  // namespace

int main() {
  for (const int width : {4, 8, 16}) {
    run("spread", width);
    run("random", width);
  }
}
