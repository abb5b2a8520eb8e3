// SPDX-License-Identifier: Apache-2.0
// Runs of the persistent kernels on a GPU.
#pragma once

#include "kernels/recurrent/recurrence.hpp"
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

// Everything that a run is given and gives, on the device.
struct OnDevice {
  OnDevice(const Recurrent& network, const Given& g)
      : state_bytes(static_cast<std::size_t>(network.batch) * network.hidden * info(network.precision).bytes),
        input(to_elements(g.input, network.precision)),
        initial(to_elements(g.initial, network.precision)),
        initial_cell(to_elements(g.initial_cell, network.precision)),
        output(poisoned(g.steps * state_bytes)),
        final_state(poisoned(state_bytes)),
        final_cell(poisoned(state_bytes)),
        has_cell(network.cell == Cell::lstm) {
    ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());
    sequences.steps = g.steps;
    const auto pointer = [](const DeviceBuffer<std::byte>& given) {
      return given.size() == 0 ? nullptr : given.data();
    };
    sequences.input = pointer(input);
    sequences.initial = pointer(initial);
    sequences.initial_cell = pointer(initial_cell);
    sequences.output = output.data();
    sequences.final_state = final_state.data();
    sequences.final_cell = has_cell ? final_cell.data() : nullptr;
    sequences.lengths = g.lengths;
    sequences.backward = g.backward;
  }

  Got results() const {
    return {output.download(), final_state.download(), has_cell ? final_cell.download() : std::vector<std::byte>()};
  }

  std::size_t state_bytes;
  DeviceBuffer<std::byte> input, initial, initial_cell, output, final_state, final_cell;
  bool has_cell;
  Sequences sequences;
};

inline Got run(PersistentKernel& kernel, const Recurrent& network, const Given& g) {
  const OnDevice data(network, g);
  const Stream stream;
  kernel.enqueue(stream.get(), data.sequences);
  stream.synchronize();
  kernel.check_status();
  return data.results();
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
