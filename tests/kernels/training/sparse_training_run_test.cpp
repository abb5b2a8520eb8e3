// SPDX-License-Identifier: Apache-2.0
// Training steps of sparse LSTM layers on a GPU.
#include "kernels/runtime/device_program.hpp"
#include "tests/kernels/training/sparse_training_cases.hpp"

#include <utility>
#include <vector>

namespace onchip {

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
      const TrainingPlan plan =
          choose_on_chip(some_sms(device.sm_count), training_of(size, precision, &mask)).value_or_throw();
      const TrainingProgram training =
          confirmed_program(size, precision, plan, device.architecture, &mask, device.sm_count);
      DeviceProgram gpu(training.program);
      CHECK(gpu.spill_bytes() == 0);
      check_training(gpu, training.arrays, size, precision, in, &mask);
      const TrainingArrays& a = training.arrays;
      check_repeats(gpu, {a.dx, a.dw_ih, a.dw_hh, a.db, a.dh0, a.dc0}, precision);
    }
  }
}

}  // namespace onchip
