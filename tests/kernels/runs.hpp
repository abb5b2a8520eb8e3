// SPDX-License-Identifier: Apache-2.0
// Runs of the persistent kernels on a GPU.
#pragma once

#include "kernels/recurrent/persistent_kernel.hpp"
#include "kernels/runtime/device.hpp"
#include "tests/kernels/given.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace onchip {

// Device memory whose every element is a NaN until it is written.
inline DeviceBuffer<std::byte> poisoned(std::size_t bytes) {
  return DeviceBuffer<std::byte>(std::span<const std::byte>(std::vector<std::byte>(bytes, std::byte{0xff})));
}

inline Got run(PersistentKernel& kernel, const Recurrent& network, const Given& g) {
  const auto upload = [&](const std::vector<float>& values) {
    return DeviceBuffer<std::byte>(to_elements(values, network.precision));
  };
  const auto input = upload(g.input), initial = upload(g.initial), initial_cell = upload(g.initial_cell);
  const std::size_t state = static_cast<std::size_t>(network.batch) * network.hidden * info(network.precision).bytes;
  const bool has_cell = network.cell == Cell::lstm;
  const auto output = poisoned(g.steps * state), final_state = poisoned(state), final_cell = poisoned(state);
  ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());
  const auto pointer = [](const std::vector<float>& host, const DeviceBuffer<std::byte>& device) {
    return host.empty() ? nullptr : device.data();
  };
  Sequences sequences;
  sequences.steps = g.steps;
  sequences.input = pointer(g.input, input);
  sequences.initial = pointer(g.initial, initial);
  sequences.initial_cell = pointer(g.initial_cell, initial_cell);
  sequences.output = output.data();
  sequences.final_state = final_state.data();
  sequences.final_cell = has_cell ? final_cell.data() : nullptr;
  sequences.lengths = g.lengths;
  sequences.backward = g.backward;
  const Stream stream;
  kernel.enqueue(stream.get(), sequences);
  stream.synchronize();
  kernel.check_status();
  return {output.download(), final_state.download(), has_cell ? final_cell.download() : std::vector<std::byte>()};
}

template <typename P>
Got run(const PlannedCase<P>& c, const Given& g, std::int64_t most_steps = 2048) {
  PersistentKernel kernel(c.layout(), g.biases(), most_steps);
  return run(kernel, c.network, g);
}

template <typename P>
void check_right(const PlannedCase<P>& c, const Given& g, std::int64_t most_steps = 2048) {
  CAPTURE(c.text(), g.steps, g.backward);
  check_right(run(c, g, most_steps), expected(c, g), c.network.precision);
}

// One step and several, by one kernel without biases.
template <typename P>
void check_steps(const PlannedCase<P>& c) {
  PersistentKernel kernel(c.layout());
  for (const int steps : {1, 6}) {
    Given g = given(c.network, steps);
    g.input_bias.clear();
    g.recurrent_bias.clear();
    CAPTURE(c.text(), steps);
    check_right(run(kernel, c.network, g), expected(c, g), c.network.precision);
  }
}

}  // namespace onchip
