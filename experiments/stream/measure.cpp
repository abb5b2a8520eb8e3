// SPDX-License-Identifier: Apache-2.0
#include "experiments/stream/streams.hpp"

#include "kernels/microbench/mailbox.hpp"
#include "kernels/stream/drawn_stream.hpp"

#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr int kCheckedSteps = 48;
constexpr int kTurns = 10;  // of the stream and of the mailbox alone

}  // namespace

MeasuredStream measure_stream(const StreamSize& size, const StreamPlan& plan, std::int64_t requests,
                              std::uint64_t seed) {
  const DrawnStream drawn(size, kCheckedSteps, seed);
  const DeviceStreamWeights weights(drawn);
  LiveStream live(size, plan, weights.get());
  MeasuredStream measured;
  measured.device = device_info().name;
  measured.requests = requests;
  const std::vector<std::uint16_t> one_by_one = answers_of(live, size.streams - 1, drawn, 1);
  measured.relative_error = drawn.relative_error(one_by_one);
  live.reset(size.streams - 1);
  measured.has_same_bits = one_by_one == answers_of(live, size.streams - 1, drawn, size.slots);

  std::vector<std::vector<std::uint16_t>> inputs;
  for (int step = 0; step < kCheckedSteps; ++step) {
    inputs.push_back(drawn.input(step));
  }
  std::vector<std::uint16_t> answer(static_cast<std::size_t>(size.batch) * size.hidden);
  std::vector<float> of_stream, of_mailbox;
  for (int turn = 0; turn < kTurns; ++turn) {
    {
      EmptyMailbox mailbox;
      time_calls(of_mailbox, requests / kTurns, [&] { mailbox.ask(); });
    }
    std::size_t step = 0;
    time_calls(of_stream, requests / kTurns, [&] {
      live.send(0, inputs[step++ % kCheckedSteps]);
      live.receive(0, answer);
    });
  }
  measured.request = percentiles(std::move(of_stream));
  measured.mailbox = percentiles(std::move(of_mailbox));
  measured.launches = live.launches();
  return measured;
}

}  // namespace onchip
