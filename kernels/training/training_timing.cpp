// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/training_timing.hpp"

#include "kernels/feed_forward/inference.hpp"
#include "kernels/runtime/device.hpp"
#include "model/base/numeric.hpp"
#include "model/base/random.hpp"

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace onchip {

TrainingTiming time_training(const TrainingSize& size, Precision precision, const TrainingPlan& plan, int repeats) {
  const TrainingProgram training = training_program(size, precision, plan, device_info().architecture);
  DeviceInference device(training.program);
  const TrainingArrays& a = training.arrays;
  Random random(1, 0);
  const double scale = 1 / std::sqrt(size.hidden);
  for (const auto& [array, most] : std::map<int, double>{{a.x, 1},
                                                         {a.w_ih, scale},
                                                         {a.w_hh, scale},
                                                         {a.b_ih, scale},
                                                         {a.b_hh, scale},
                                                         {a.h0, 1},
                                                         {a.c0, 1},
                                                         {a.dy, 1},
                                                         {a.dhn, 1},
                                                         {a.dcn, 1}}) {
    std::vector<std::uint16_t> bits(training.program.arrays[array].bytes / 2);
    constexpr std::size_t kDrawn = 1 << 16;  // and these again and again
    for (std::size_t i = 0; i < bits.size(); ++i) {
      bits[i] = i < kDrawn
                    ? static_cast<std::uint16_t>(to_bits(precision, static_cast<float>(most * (2 * random.unit() - 1))))
                    : bits[i - kDrawn];
    }
    device.write(array, std::as_bytes(std::span(bits)));
  }
  const auto check = [&] {
    if (device.run()[0] != 0) {
      throw CudaError("the training step gave up waiting for a state");
    }
  };
  check();
  const auto steps = static_cast<double>(size.steps);
  std::map<std::string, std::vector<double>> of_node;
  std::vector<double> graphs;
  for (int i = 0; i < repeats; ++i) {
    for (const auto& [label, ms] : device.node_ms()) {
      of_node[label].push_back(1e3 * ms / steps);
    }
    constexpr int kInARow = 4;
    graphs.push_back(1e3 * device.graph_ms(kInARow) / steps);
  }
  check();
  const auto sum = [&](std::initializer_list<const char*> labels) {
    double us = 0;
    for (const char* const label : labels) {
      us += of_node.contains(label) ? summarize(of_node.at(label)).median : 0;
    }
    return us;
  };
  return {.plan = training.plan,
          .spill_bytes = device.spill_bytes(),
          .forward_us = sum({"forward"}),
          .backward_us = sum({"backward"}),
          .products_us = sum({"W_ih x", "dx", "dW_ih", "dW_hh", "dW_hh of h0"}),
          .preparation_us = sum({"prepare forward", "prepare backward", "status", "db"}),
          .graph_us = summarize(graphs).median};
}

}  // namespace onchip
