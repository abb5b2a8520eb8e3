// SPDX-License-Identifier: Apache-2.0
// Streams on a GPU: the answers of drawn stacks, also while they park, beside other work, and with new weights.
#include "kernels/stream/drawn_stream.hpp"
#include "model/base/error.hpp"
#include "model/base/random.hpp"
#include "model/chip/chip.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace onchip {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr double kTolerance = 2e-3;  // a layer's, of 16 bits

StreamPlan plan_of(const StreamSize& size) {
  static const Chip chip = find_chip("h200").chip;
  return choose_stream(chip, size).value_or_throw();
}

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace

TEST_CASE("streams of drawn stacks answer as the reference does, with the same bits however many requests wait",
          "[gpu]") {
  Random random(7, 0);
  for (int i = 0; i < 14; ++i) {
    StreamSize size;
    size.cell = i % 2 == 0 ? Cell::lstm : Cell::gru;
    size.precision = i % 3 == 0 ? Precision::bf16 : Precision::fp16;
    size.layers = 1 + static_cast<int>(random.below(5));
    size.hidden = 1 + static_cast<int>(random.below(400));
    size.input = 1 + static_cast<int>(random.below(400));
    size.batch = 1 + static_cast<int>(random.below(8));
    size.streams = 1 + static_cast<int>(random.below(3));
    if (!choose_stream(find_chip("h200").chip, size)) {
      continue;
    }
    INFO(info(size.cell).name << ' ' << info(size.precision).name << " layers " << size.layers << " hidden "
                              << size.hidden << " input " << size.input << " batch " << size.batch << " streams "
                              << size.streams);
    const DrawnStream drawn(size, 40, i);
    const DeviceStreamWeights weights(drawn);
    LiveStream live(size, plan_of(size), weights.get());
    const double tolerance = kTolerance * size.layers * (size.precision == Precision::bf16 ? 8 : 1);
    for (int stream = 0; stream < size.streams; ++stream) {
      const std::vector<std::uint16_t> y = answers_of(live, stream, drawn, 1);
      CHECK(drawn.relative_error(y) < tolerance);
      live.reset(stream);
      CHECK((answers_of(live, stream, drawn, size.slots) == y));
      live.reset(stream);
      std::this_thread::sleep_for(30ms);  // it parks, and keeps the state
      CHECK((answers_of(live, stream, drawn, 3) == y));
    }
    CHECK(live.launches() > 1);
  }
}

TEST_CASE("streams take new weights and states between requests, and wait no longer than they say", "[gpu]") {
  const StreamSize size{.layers = 2, .input = 96, .hidden = 128, .streams = 2};
  const DrawnStream one(size, 30, 1), other(size, 30, 2);
  const DeviceStreamWeights weights(one), others(other);
  LiveStream live(size, plan_of(size), weights.get());
  const std::vector<std::uint16_t> of_one = answers_of(live, 0, one, 1);
  for (int round = 0; round < 50; ++round) {
    live.set_weights((round % 2 == 0 ? others : weights).get());
    live.reset(0);
    const std::vector<std::uint16_t> y = answers_of(live, 0, round % 2 == 0 ? other : one, 4);
    CHECK((round % 2 == 0 ? other : one).relative_error(y) < kTolerance * 2);
    CHECK((round % 2 == 0 || y == of_one));
  }
  // The state goes on through a change of weights, and a state that is given is taken.
  const std::vector<double> h(std::size_t{2} * 128, 0.5);
  const DeviceBuffer<std::uint16_t> given{std::span<const std::uint16_t>(one.bits(h))};
  live.set_weights(weights.get());
  live.reset(0, given.data(), given.data());
  live.reset(1, given.data(), given.data());
  CHECK((answers_of(live, 0, one, 2) == answers_of(live, 1, one, 5)));

  std::vector<std::uint16_t> y(128);
  CHECK_THROWS_AS(live.receive(0, y), InputError);
  for (int i = 0; i < size.slots; ++i) {
    live.send(0, one.input(i));
  }
  CHECK_THROWS_AS(live.send(0, one.input(0)), InputError);
  CHECK_THROWS_AS(live.reset(0), InputError);
}

TEST_CASE("what waits for the device waits at most 50 ms for an idle stream, and a closed one is gone at once",
          "[gpu]") {
  const StreamSize size{.layers = 3, .input = 256, .hidden = 256};
  const DrawnStream drawn(size, 20, 3);
  const DeviceStreamWeights weights(drawn);
  LiveStream live(size, plan_of(size), weights.get());
  for (int round = 0; round < 20; ++round) {
    answers_of(live, 0, drawn, 1);
    const Clock::time_point begin = Clock::now();
    ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());
    CHECK(ms_since(begin) < 50);
    answers_of(live, 0, drawn, 1);
    const Clock::time_point frees = Clock::now();
    { const DeviceBuffer<float> memory(1 << 20); }
    CHECK(ms_since(frees) < 50);
  }
  for (int round = 0; round < 200; ++round) {
    std::optional<LiveStream> closed(std::in_place, size, plan_of(size), weights.get(),
                                     StreamTimes{.idle = 4s, .beat = 4s});
    std::vector<std::uint16_t> y(256);
    closed->send(0, drawn.input(0));
    closed->receive(0, y);
    closed->send(0, drawn.input(1));  // nobody receives
    const Clock::time_point begin = Clock::now();
    closed.reset();
    CHECK(ms_since(begin) < 50);
  }
}

TEST_CASE("other kernels run beside a stream that is asked all the time", "[gpu]") {
  const StreamSize size{.layers = 2, .input = 128, .hidden = 128};
  const DrawnStream drawn(size, 200, 4);
  const DeviceStreamWeights weights(drawn);
  LiveStream live(size, plan_of(size), weights.get());
  const std::vector<std::uint16_t> y = answers_of(live, 0, drawn, 1);
  DeviceBuffer<std::uint32_t> memory(1 << 24);
  const Stream beside;
  for (int round = 0; round < 100; ++round) {
    live.reset(0);
    for (int i = 0; i < 5; ++i) {
      ONCHIP_CUDA_CHECK(cudaMemsetAsync(memory.data(), i, memory.bytes(), beside.get()));
    }
    CHECK((answers_of(live, 0, drawn, 1) == y));
  }
  beside.synchronize();
}

// Ten million requests, and ten thousand streams.
TEST_CASE("a stream that is asked ten million times beside other kernels loses and mixes up nothing", "[gpu][soak]") {
  constexpr int kSteps = 500, kRounds = 20'000;
  const StreamSize size{.layers = 2, .input = 128, .hidden = 128};
  const DrawnStream drawn(size, kSteps, 4);
  const DeviceStreamWeights weights(drawn);
  LiveStream live(size, plan_of(size), weights.get());
  const std::vector<std::uint16_t> y = answers_of(live, 0, drawn, 1);
  std::vector<std::vector<std::uint16_t>> inputs;
  for (int step = 0; step < kSteps; ++step) {
    inputs.push_back(drawn.input(step));
  }
  DeviceBuffer<std::uint32_t> memory(1 << 20);
  const Stream beside;
  std::vector<std::uint16_t> found(128);
  int wrong = 0;
  for (int round = 0; round < kRounds; ++round) {
    live.reset(0);
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(memory.data(), round, memory.bytes(), beside.get()));
    if (round % 1000 == 0) {
      std::this_thread::sleep_for(20ms);  // it parks
    }
    for (int step = 0; step < kSteps; ++step) {
      live.send(0, inputs[static_cast<std::size_t>(step)]);
      live.receive(0, found);
      wrong += std::equal(found.begin(), found.end(), y.begin() + step * 128) ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
  beside.synchronize();
}

TEST_CASE("ten thousand streams are opened, asked and closed", "[gpu][soak]") {
  const StreamSize size{.layers = 2, .input = 128, .hidden = 128};
  const DrawnStream drawn(size, 3, 4);
  const DeviceStreamWeights weights(drawn);
  std::vector<std::uint16_t> y;
  int wrong = 0;
  for (int i = 0; i < 10'000; ++i) {
    LiveStream live(size, plan_of(size), weights.get());
    const std::vector<std::uint16_t> found = answers_of(live, 0, drawn, 1 + i % 3);
    wrong += i == 0 || found == y ? 0 : 1;
    y = found;
  }
  CHECK(wrong == 0);
}

}  // namespace onchip
