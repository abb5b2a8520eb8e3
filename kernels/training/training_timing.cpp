// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/training_timing.hpp"

#include "kernels/runtime/device_program.hpp"
#include "model/base/numeric.hpp"
#include "model/base/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {
namespace {

// Of a node that is called so, or so and more: sub-batches, and what belongs to a product.
std::size_t part_of(std::string_view label) {
  constexpr std::array<std::pair<std::string_view, TrainingPart>, 9> kParts{{{"forward", TrainingPart::forward},
                                                                             {"again forward", TrainingPart::forward},
                                                                             {"again W_ih x", TrainingPart::products},
                                                                             {"backward", TrainingPart::backward},
                                                                             {"W_ih x", TrainingPart::products},
                                                                             {"gates W", TrainingPart::products},
                                                                             {"dx", TrainingPart::products},
                                                                             {"dW_ih", TrainingPart::products},
                                                                             {"dW_hh", TrainingPart::products}}};
  const auto part = std::ranges::find_if(kParts, [&](const auto& of) { return label.starts_with(of.first); });
  return static_cast<std::size_t>(part == kParts.end() ? TrainingPart::other : part->second);
}

// Random data in the arrays that a step reads.
void fill_inputs(DeviceProgram& device, const TrainingProgram& training, const TrainingSize& size,
                 Precision precision) {
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
}

}  // namespace

TrainingWays training_ways(const TrainingProgram& training, const TrainingSize& size, Precision precision) {
  const auto device = std::make_shared<DeviceProgram>(training.program);
  fill_inputs(*device, training, size, precision);
  const double us_per_step = 1e3 / static_cast<double>(size.steps);
  TrainingWays ways{.graph = {.name = "onchip", .computes = "forward and all gradients, CUDA graph"},
                    .parts = {.name = "onchip, node by node"},
                    .spill_bytes = device->spill_bytes()};
  ways.graph.sample = [device, us_per_step] {
    const double us = us_per_step * device->graph_ms();
    if (device->results()[0] != 0) {
      throw CudaError("the training step gave up waiting for a state");
    }
    return std::vector{us};
  };
  ways.parts.sample = [device, us_per_step] {
    std::vector<double> us(1 + kTrainingParts);
    for (const auto& [label, ms] : device->node_ms()) {
      us[0] += us_per_step * ms;
      us[1 + part_of(label)] += us_per_step * ms;
    }
    return us;
  };
  for (const ProgramNode& node : training.program.nodes(std::vector<std::byte*>(training.program.arrays.size()))) {
    if (node.cooperative) {
      ways.codes[part_of(node.label)] = compile(training.program.kernels[node.kernel].request).code_fingerprint;
    }
  }
  return ways;
}

}  // namespace onchip
