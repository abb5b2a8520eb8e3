// SPDX-License-Identifier: Apache-2.0
// A stack with random weights, to be run as a stream, and what the reference in double precision says of its steps.
#pragma once

#include "kernels/runtime/device.hpp"
#include "kernels/stream/live_stream.hpp"
#include "model/training/training_reference.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

struct DrawnStream {
  StreamSize size;
  std::vector<TrainingInput> layers;  // weights that the precision has
  std::vector<double> x;              // [steps, batch, input], likewise
  int steps = 0;

  DrawnStream(const StreamSize& of_size, int of_steps, std::uint64_t seed);

  std::vector<std::uint16_t> bits(std::span<const double> values) const;
  std::vector<std::uint16_t> input(int step) const;  // of x, round and round
  std::vector<double> expected() const;              // h of the last layer, [steps, batch, hidden], from zeros
  double relative_error(std::span<const std::uint16_t> y) const;  // of all steps, norm by norm
};

// Its weights in device memory.
class DeviceStreamWeights {
 public:
  explicit DeviceStreamWeights(const DrawnStream& drawn);
  std::span<const StreamWeights> get() const { return weights_; }

 private:
  std::vector<DeviceBuffer<std::uint16_t>> arrays_;
  std::vector<StreamWeights> weights_;
};

// The answers to all steps, of which so many wait at a time.
std::vector<std::uint16_t> answers_of(LiveStream& live, int stream, const DrawnStream& drawn, int waiting);

}  // namespace onchip
