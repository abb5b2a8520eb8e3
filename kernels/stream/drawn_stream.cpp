// SPDX-License-Identifier: Apache-2.0
#include "kernels/stream/drawn_stream.hpp"

#include "model/base/numeric.hpp"
#include "model/base/random.hpp"

#include <cmath>
#include <cstddef>
#include <utility>

namespace onchip {

DrawnStream::DrawnStream(const StreamSize& of_size, int of_steps, std::uint64_t seed) : size(of_size), steps(of_steps) {
  Random random(seed, 3);
  const auto draw = [&](std::size_t count, double most) {
    std::vector<double> values(count);
    for (double& value : values) {
      value = from_bits(size.precision, to_bits(size.precision, static_cast<float>(most * (2 * random.unit() - 1))));
    }
    return values;
  };
  const std::size_t rows = static_cast<std::size_t>(info(size.cell).gates) * size.hidden;
  const double most = 1 / std::sqrt(static_cast<double>(size.hidden));
  for (int layer = 0; layer < size.layers; ++layer) {
    TrainingInput& weights = layers.emplace_back();
    weights.w_ih = draw(rows * (layer == 0 ? size.input : size.hidden), most);
    weights.w_hh = draw(rows * size.hidden, most);
    weights.b_ih = draw(rows, most);
    weights.b_hh = draw(rows, most);
  }
  x = draw(static_cast<std::size_t>(steps) * size.batch * size.input, 1);
}

std::vector<std::uint16_t> DrawnStream::bits(std::span<const double> values) const {
  std::vector<std::uint16_t> bits;
  bits.reserve(values.size());
  for (const double value : values) {
    bits.push_back(static_cast<std::uint16_t>(to_bits(size.precision, static_cast<float>(value))));
  }
  return bits;
}

std::vector<std::uint16_t> DrawnStream::input(int step) const {
  const auto elements = static_cast<std::size_t>(size.batch) * size.input;
  return bits(std::span(x).subspan(static_cast<std::size_t>(step % steps) * elements, elements));
}

std::vector<double> DrawnStream::expected() const {
  std::vector<double> y = x;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    TrainingInput in = layers[layer];
    in.x = std::move(y);
    y = training_reference({.input = layer == 0 ? size.input : size.hidden,
                            .hidden = size.hidden,
                            .batch = size.batch,
                            .steps = steps,
                            .cell = size.cell},
                           in, /*has_gradients=*/false)
            .y;
  }
  return y;
}

double DrawnStream::relative_error(std::span<const std::uint16_t> y) const {
  const std::vector<double> exact = expected();
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double off = from_bits(size.precision, y[i]) - exact[i];
    difference += off * off;
    norm += exact[i] * exact[i];
  }
  return std::sqrt(difference / norm);
}

DeviceStreamWeights::DeviceStreamWeights(const DrawnStream& drawn) {
  const auto upload = [&](const std::vector<double>& values) {
    return arrays_.emplace_back(std::span<const std::uint16_t>(drawn.bits(values))).data();
  };
  for (const TrainingInput& of : drawn.layers) {
    weights_.push_back({upload(of.w_ih), upload(of.w_hh), upload(of.b_ih), upload(of.b_hh)});
  }
}

std::vector<std::uint16_t> answers_of(LiveStream& live, int stream, const DrawnStream& drawn, int waiting) {
  const auto elements = static_cast<std::size_t>(drawn.size.batch) * drawn.size.hidden;
  std::vector<std::uint16_t> y(static_cast<std::size_t>(drawn.steps) * elements);
  int sent = 0;
  for (int received = 0; received < drawn.steps; ++received) {
    for (; sent < drawn.steps && sent - received < waiting; ++sent) {
      live.send(stream, drawn.input(sent));
    }
    live.receive(stream, std::span(y).subspan(static_cast<std::size_t>(received) * elements, elements));
  }
  return y;
}

}  // namespace onchip
