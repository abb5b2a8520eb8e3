// SPDX-License-Identifier: Apache-2.0
// What the host does before the first training step of a new shape, as a table in processor seconds: chips read (once),
// a plan chosen, the program made and its kernels compiled for sm_90, first with an empty cache of kernels, then again
// with what that left there. Kernels of the two recurrences are compiled side by side. Not what a GPU adds: loading the
// kernels, taking memory. No GPU.
//   build/bench_first_step > experiments/data/first_step.csv
#include "kernels/api/confirmed_plan.hpp"
#include "kernels/runtime/compiler.hpp"
#include "kernels/training/sparse_program.hpp"
#include "model/base/clocks.hpp"
#include "model/base/error.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

using namespace onchip;

// As kernels/api/training.cpp does it.
void make(const TrainingSize& size) {
  static const Chip chip = [] {
    for (const std::string& shipped : shipped_chips()) {
      find_chip(shipped);
    }
    return find_chip("h200").chip;
  }();
  const TrainingPlan plan = plan_training_on_chip(chip, training_of(size, Precision::fp16)).value_or_throw().plan;
  const TrainingProgram training = training_program(
      size, Precision::fp16, confirmed_plan(chip, size, Precision::fp16, nullptr, plan, "sm_90").chosen, nullptr, chip,
      "sm_90");
  for (const ProgramKernel& kernel : training.program.kernels) {
    compile(kernel.request);
  }
}

std::size_t cubins(const std::filesystem::path& folder) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    count += entry.path().extension() == ".cubin";
  }
  return count;
}

void measure(const TrainingSize& size, const std::filesystem::path& cache) {
  const double begin = processor_seconds();
  make(size);
  const double first = processor_seconds();
  make(size);
  const double again = processor_seconds() - first;
  const auto cell = info(size.cell).name;
  std::printf("%.*s,%d,%d,%zu,%.2f,%.3f\n", static_cast<int>(cell.size()), cell.data(), size.hidden, size.batch,
              cubins(cache), first - begin, again);
  std::fflush(stdout);
}

}  // namespace

int main() {
  const std::filesystem::path cache = std::filesystem::temp_directory_path() / "onchip_bench_first_step";
  setenv("ONCHIP_CACHE", cache.c_str(), 1);
  compiler_version();  // once in a process, with what the compiler itself sets up
  std::printf("cell,hidden,batch,cubins,first_s,again_s\n");
  struct Shape {
    Cell cell;
    int hidden, batch;
  };
  for (const auto& [cell, hidden, batch] :
       {Shape{Cell::lstm, 256, 16}, Shape{Cell::lstm, 512, 64}, Shape{Cell::lstm, 512, 512},
        Shape{Cell::lstm, 1024, 16}, Shape{Cell::lstm, 1024, 64}, Shape{Cell::lstm, 1024, 256},
        Shape{Cell::lstm, 1536, 32}, Shape{Cell::gru, 256, 64}, Shape{Cell::gru, 512, 16}, Shape{Cell::gru, 1024, 64},
        Shape{Cell::gru, 1024, 512}, Shape{Cell::gru, 2048, 32}}) {
    std::filesystem::remove_all(cache);
    std::filesystem::create_directories(cache);
    try {
      measure({.input = hidden, .hidden = hidden, .batch = batch, .steps = 128, .cell = cell}, cache);
    } catch (const InputError& error) {
      std::fprintf(stderr, "%d units, %d samples: %s\n", hidden, batch, error.what());
    }
  }
  std::filesystem::remove_all(cache);
}
