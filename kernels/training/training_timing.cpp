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
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {
namespace {

// Of a node that is called so, or so and more: turns, and what belongs to a product.
std::string part_of(std::string_view label) {
  constexpr std::array<std::pair<std::string_view, const char*>, 6> kParts{{{"forward", "forward"},
                                                                            {"backward", "backward"},
                                                                            {"W_ih x", "products"},
                                                                            {"dx", "products"},
                                                                            {"dW_ih", "products"},
                                                                            {"dW_hh", "products"}}};
  const auto part = std::ranges::find_if(kParts, [&](const auto& of) { return label.starts_with(of.first); });
  return part == kParts.end() ? "other" : part->second;
}

}  // namespace

TrainingTiming time_training(const TrainingProgram& training, const TrainingSize& size, Precision precision,
                             int repeats) {
  DeviceProgram device(training.program);
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
  check();
  const auto steps = static_cast<double>(size.steps);
  std::map<std::string, std::vector<double>> of_part;
  for (int i = 0; i < repeats; ++i) {
    of_part["graph"].push_back(1e3 * device.graph_ms(1) / steps);
    std::map<std::string, double> parts;
    for (const auto& [label, ms] : device.node_ms()) {
      parts[part_of(label)] += 1e3 * ms / steps;
    }
    for (const auto& [part, us] : parts) {
      of_part[part].push_back(us);
    }
  }
  check();
  std::map<std::string, std::string> codes;  // by the node's label
  for (const ProgramNode& node : training.program.nodes(std::vector<std::byte*>(training.program.arrays.size()))) {
    if (node.cooperative) {
      codes[part_of(node.label)] = compile(training.program.kernels[node.kernel].request).code_fingerprint;
    }
  }
  return {.spill_bytes = device.spill_bytes(),
          .forward_code = codes["forward"],
          .backward_code = codes["backward"],
          .forward = summarize(of_part["forward"]),
          .backward = summarize(of_part["backward"]),
          .products = summarize(of_part["products"]),
          .other = summarize(of_part["other"]),
          .graph = summarize(of_part["graph"])};
}

}  // namespace onchip
