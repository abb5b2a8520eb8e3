// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/training_timing.hpp"

#include "kernels/runtime/device_program.hpp"
#include "kernels/training/training_layer.hpp"
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/base/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
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

// So many elements, the same again and again after some.
std::vector<std::uint16_t> random_elements(std::size_t count, double most, Precision precision, Random& random) {
  constexpr std::size_t kDrawn = 1 << 16;
  std::vector<std::uint16_t> bits(count);
  for (std::size_t i = 0; i < count; ++i) {
    bits[i] = i < kDrawn
                  ? static_cast<std::uint16_t>(to_bits(precision, static_cast<float>(most * (2 * random.unit() - 1))))
                  : bits[i - kDrawn];
  }
  return bits;
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
    const std::vector<std::uint16_t> bits =
        random_elements(training.program.arrays[array].bytes / 2, most, precision, random);
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

namespace {

// The layers of a network, and all their arrays.
class StackStep {
 public:
  StackStep(const Chip& chip, const Training& training, const TrainingPlan& plan)
      : precision_(training.network.precision) {
    std::size_t workspace = 0;
    for (int layer = 0; layer < training.stack.layers; ++layer) {
      const auto* const dense = std::get_if<DenseTrainingPlan>(&plan);
      const TrainingPlan own = dense != nullptr ? of_layer(*dense, layer) : plan;
      layers_.emplace_back(size_of(training, layer), precision_, own, chip);
      workspace = std::max(workspace, layers_.back().workspace_bytes());
    }
    workspace_.emplace(workspace);
    std::byte* x = nullptr;
    for (const TrainingLayer& layer : layers_) {
      x = add_arrays(layer, x);
    }
    std::byte* dy = nullptr;
    for (std::size_t layer = layers_.size(); layer-- > 0;) {
      dy = add_gradients(layers_[layer], places_[layer], dy);
    }
  }

  void enqueue(cudaStream_t stream) const {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      layers_[layer].enqueue(stream, TrainingHalf::forward, places_[layer], 0, workspace_->data());
    }
    for (std::size_t layer = layers_.size(); layer-- > 0;) {
      layers_[layer].enqueue(stream, TrainingHalf::backward, places_[layer], 0, workspace_->data());
    }
  }

 private:
  using Arrays = TrainingArrays;

  std::byte* add(const TrainingLayer& layer, int array, double most = 0) {
    DeviceBuffer<std::byte>& buffer = buffers_.emplace_back(layer.training().program.arrays[array].bytes);
    if (most > 0) {
      const std::vector<std::uint16_t> bits = random_elements(buffer.bytes() / 2, most, precision_, random_);
      buffer.upload(std::as_bytes(std::span(bits)));
    }
    return buffer.data();
  }

  // Its own and those of its directions, which have parts of `y` or `dy`.
  void share(const TrainingLayer& layer, std::vector<std::vector<std::byte*>>& places, int array, std::byte* data,
             bool are_parts) const {
    for (std::size_t direction = 0; direction < places.size(); ++direction) {
      places[direction][array] = data + (are_parts ? 2 * direction * static_cast<std::size_t>(layer.size().hidden) : 0);
    }
  }

  // `x`: null for the first layer. Returns y.
  std::byte* add_arrays(const TrainingLayer& layer, std::byte* x) {
    const Arrays& a = layer.training().arrays;
    std::vector<std::vector<std::byte*>>& places =
        places_.emplace_back(layer.size().directions, std::vector<std::byte*>(layer.training().program.arrays.size()));
    const double scale = 1 / std::sqrt(layer.size().hidden);
    share(layer, places, a.x, x != nullptr ? x : add(layer, a.x, 1), false);
    std::byte* const y = add(layer, a.y);
    share(layer, places, a.y, y, true);
    for (std::vector<std::byte*>& of_direction : places) {
      for (const int array : {a.w_ih, a.w_hh, a.b_ih, a.b_hh}) {
        of_direction[array] = add(layer, array, scale);
      }
      for (const int array : {a.h0, a.c0, a.dhn, a.dcn}) {
        of_direction[array] = add(layer, array, 1);
      }
      for (const int array : {a.hn, a.cn, a.cells, a.kept, a.dw_ih, a.dw_hh, a.db, a.db_hh, a.dh0, a.dc0}) {
        of_direction[array] = add(layer, array);
      }
    }
    return y;
  }

  // `dy`: null for the last layer. Returns dx.
  std::byte* add_gradients(const TrainingLayer& layer, std::vector<std::vector<std::byte*>>& places, std::byte* dy) {
    const Arrays& a = layer.training().arrays;
    share(layer, places, a.dy, dy != nullptr ? dy : add(layer, a.dy, 1), true);
    std::byte* const dx = add(layer, a.dx);
    share(layer, places, a.dx, dx, false);
    return dx;
  }

  Precision precision_;
  Random random_{1, 0};
  std::deque<TrainingLayer> layers_;
  std::deque<DeviceBuffer<std::byte>> buffers_;
  std::optional<DeviceBuffer<std::byte>> workspace_;
  std::vector<std::vector<std::vector<std::byte*>>> places_;  // [layers, directions, arrays]
};

}  // namespace

Way stack_way(const Chip& chip, const Training& training, const TrainingPlan& plan) {
  if (const auto* const dense = std::get_if<DenseTrainingPlan>(&plan); dense && dense->stash == Stash::replay) {
    throw InputError("a replay of a stack is timed by experiments/recipes/training/training_memory.py");
  }
  struct Captured {
    StackStep step;
    Stream stream;
    EventTimer timer;
    std::optional<Graph> graph = {};
  };
  const auto captured = std::make_shared<Captured>(StackStep(chip, training, plan));
  captured->graph.emplace(captured->stream.get(), [&] { captured->step.enqueue(captured->stream.get()); });
  return {.name = "onchip",
          .computes = "forward and all gradients, CUDA graph",
          .sample = [captured, steps = training.network.steps] {
            const cudaStream_t stream = captured->stream.get();
            const double ms = captured->timer.milliseconds_of(stream, [&] { captured->graph->launch(stream); });
            TrainingLayer::check(stream);
            return std::vector{1e3 * ms / steps};
          }};
}

}  // namespace onchip
