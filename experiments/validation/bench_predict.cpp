// SPDX-License-Identifier: Apache-2.0
// Predictions per second on one core, over a varied list of configurations, and allocations in that loop (none).
#include "model/families/planner.hpp"
#include "model/sparse/family.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

namespace {
long allocations = 0;
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size ? size : 1)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace {

using namespace onchip;

struct Configuration {
  const Chip* chip;
  Recurrent network;
  RecurrentPlan plan;
};

std::vector<Configuration> varied(const std::vector<Chip>& chips) {
  std::vector<Configuration> list;
  for (const Chip& chip : chips) {
    for (const Cell cell : {Cell::relu, Cell::tanh}) {
      for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
        for (const int hidden : {512, 1111, 2304, 5760}) {
          for (const int batch : {1, 4, 16}) {
            for (const double density : {0.01, 0.1, 0.3, 1.0}) {
              const Recurrent network{
                  .cell = cell, .precision = precision, .hidden = hidden, .batch = batch, .density = density};
              const RowProfile rows = RowProfile::uniform(network);
              for (const int lanes : {8, 32}) {
                const RecurrentPlan plan =
                    shape_sparse_plan(network, rows, density < 1 ? Storage::packed_pair : Storage::dense,
                                      static_cast<int>(chip.sm_count), lanes, 1 + hidden % 3);
                list.push_back({&chip, network, plan});
              }
            }
          }
        }
      }
    }
  }
  return list;
}

int run() {
  std::vector<Chip> chips;
  for (const char* name : {"h200", "a100", "rtx4090"}) {
    chips.push_back(find_chip(name).chip);
  }
  const std::vector<Configuration> list = varied(chips);
  constexpr double kSeconds = 2;
  double checksum = 0;
  long predictions = 0;
  const long allocations_before = allocations;
  const auto start = std::chrono::steady_clock::now();
  double seconds = 0;
  while (seconds < kSeconds) {
    for (const Configuration& configuration : list) {
      checksum += predict(*configuration.chip, configuration.network, configuration.plan).step_us;
    }
    predictions += static_cast<long>(list.size());
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const long in_loop = allocations - allocations_before;
  std::printf(
      "configurations          %zu\n"
      "predictions per second  %.0f\n"
      "allocations in the loop %ld\n"
      "checksum                %.9g us per step on average\n",
      list.size(), static_cast<double>(predictions) / seconds, in_loop, checksum / static_cast<double>(predictions));
  return in_loop == 0 ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_predict: %s\n", error.what());
    return 2;
  }
}
