// SPDX-License-Identifier: Apache-2.0
// Training steps of sparse LSTM layers on a GPU.
#include "kernels/runtime/device_program.hpp"
#include "kernels/training/training_timing.hpp"
#include "tests/kernels/training/sparse_training_cases.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr std::size_t kSharedBytes = 227 * 1024;

std::string variable_or(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

}  // namespace

TEST_CASE("training steps of a sparse LSTM on a GPU have the gradients of the reference, with the same bits every time",
          "[gpu]") {
  const DeviceInfo device = device_info();
  std::uint64_t seed = 0;
  for (const auto& [size, density] : std::vector<std::pair<TrainingSize, double>>{{{64, 1024, 4, 30}, 0.1},
                                                                                  {{64, 1024, 16, 12}, 0.2},
                                                                                  {{13, 333, 5, 40}, 0.3},
                                                                                  {{32, 4096, 4, 3}, 0.1},
                                                                                  {{32, 2048, 16, 3}, 0.1},
                                                                                  {{16, 512, 40, 7}, 0.1}}) {
    for (const Precision precision : {Precision::fp16, Precision::bf16}) {
      INFO("hidden " << size.hidden << " batch " << size.batch << " " << info(precision).name);
      ++seed;
      TrainingInput in = random_training(size, precision, seed % 3 != 0, seed % 4 != 0, seed);
      const SparseMatrix mask = prune(size, density, seed, in.w_hh);
      const TrainingProgram training = sparse_training_program(
          size, precision,
          lay_out_sparse_training(size, precision, mask, device.sm_count, kSharedBytes, device.architecture));
      DeviceProgram gpu(training.program);
      CHECK(gpu.spill_bytes() == 0);
      check_training(gpu, training.arrays, size, precision, in, &mask);
      const TrainingArrays& a = training.arrays;
      for (const int array : {a.dx, a.dw_ih, a.dw_hh, a.db, a.dh0, a.dc0}) {
        const std::vector<float> first = read_elements(gpu, array, precision);
        REQUIRE(gpu.run()[0] == 0);
        CHECK(first == read_elements(gpu, array, precision));
      }
    }
  }
}

// ONCHIP_LSTM="4096 4", ONCHIP_DENSITY, ONCHIP_PRECISION, ONCHIP_STEPS; ONCHIP_FORWARD="loads_in_flight=16 ..." and
// ONCHIP_BACKWARD, several plans with commas between them.
TEST_CASE("what training steps of a sparse LSTM take", "[gpu][.bench]") {
  const std::int64_t steps = std::stoll(variable_or("ONCHIP_STEPS", "256"));
  const Precision precision = parse_precision(variable_or("ONCHIP_PRECISION", "fp16"));
  const double density = std::stod(variable_or("ONCHIP_DENSITY", "0.1"));
  std::vector<TrainingSize> sizes{{4096, 4096, 4, steps}, {4096, 4096, 16, steps}};
  if (const std::string one = variable_or("ONCHIP_LSTM", ""); !one.empty()) {
    const int hidden = std::stoi(one), batch = std::stoi(one.substr(one.find(' ')));
    sizes = {{hidden, hidden, batch, steps}};
  }
  const auto plans_in = [](std::string words) {
    std::vector<std::string> plans;
    for (std::size_t comma; (comma = words.find(',')) != std::string::npos; words.erase(0, comma + 1)) {
      plans.push_back(words.substr(0, comma));
    }
    plans.push_back(words);
    return plans;
  };
  const std::vector<std::string> forward = plans_in(variable_or("ONCHIP_FORWARD", ""));
  const std::vector<std::string> backward = plans_in(variable_or("ONCHIP_BACKWARD", ""));
  const DeviceInfo device = device_info();
  std::printf(
      "%s, %s, density %g, us per step\nhidden batch forward backward products preparation graph spills | slots, "
      "registers' words, chunks\n",
      device.name.c_str(), std::string(info(precision).name).c_str(), density);
  for (const TrainingSize& size : sizes) {
    const SparseMatrix mask = generate_mask(4 * size.hidden, size.hidden, density, 1, precision);
    for (std::size_t i = 0; i < std::max(forward.size(), backward.size()); ++i) {
      try {
        const auto sparse = lay_out_sparse_training(size, precision, mask, device.sm_count, kSharedBytes,
                                                    device.architecture, forward[std::min(i, forward.size() - 1)],
                                                    backward[std::min(i, backward.size() - 1)]);
        const TrainingTiming timing =
            time_program(sparse_training_program(size, precision, sparse), size, precision, 7);
        std::printf("%6d %5d %7.2f %8.2f %8.2f %11.2f %5.2f %6d", size.hidden, size.batch, timing.forward.median,
                    timing.backward.median, timing.products.median, timing.other.median, timing.graph.median,
                    timing.spill_bytes);
        for (const SparseTraining::Pass* const pass : {&sparse->forward, &sparse->backward}) {
          const SparseGeometry& geometry = pass->recurrence.geometry;
          std::printf(" | %s: %d SMs of %d units, %d x %d rows, %s, %d slots in registers, %d chunks, %zu bytes",
                      text(pass->recurrence.plan).c_str(), pass->recurrence.blocks, pass->recurrence.units,
                      geometry.groups(), geometry.rows_per_group, std::string(name(geometry.storage)).c_str(),
                      geometry.slots_total(), geometry.shared_chunks, pass->recurrence.shared_bytes);
        }
        std::printf("\n");
      } catch (const std::exception& error) {
        std::printf("%s\n", error.what());
      }
      std::fflush(stdout);
    }
  }
}

}  // namespace onchip
