// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement.hpp"

#include "experiments/table.hpp"
#include "kernels/persistent_kernel.hpp"
#include "model/error.hpp"
#include "model/numeric.hpp"
#include "model/reference.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>

namespace onchip {
namespace {

// Uniform in [-1, 1), rounded as the kernel will see it; the same on every machine.
std::vector<float> random_values(std::size_t count, Precision precision, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = round_to(precision, static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1));
  }
  return values;
}

// [outer, a, b] -> [outer, b, a]
template <typename T>
std::vector<T> transpose(std::span<const T> values, std::size_t a, std::size_t b) {
  std::vector<T> result(values.size());
  for (std::size_t base = 0; base < values.size(); base += a * b) {
    for (std::size_t i = 0; i < a; ++i) {
      for (std::size_t j = 0; j < b; ++j) {
        result[base + j * a + i] = values[base + i * b + j];
      }
    }
  }
  return result;
}

// A step's rounding errors: of the state (unit roundoff) and of the sums, several roundoffs in sequence at most.
double tolerance_of(Precision precision) {
  return std::max(4 * info(precision).unit_roundoff, 2e-6);
}

// Host copies of input and output are several times this.
constexpr double kMostSequenceBytes = 8e9;

// The opponents of a network, to be timed one sample at a time.
class Opponents {
 public:
  Opponents(const Network& network, const SparseMatrix& matrix, const MeasureOptions& options) {
    using Clock = std::chrono::steady_clock;
    for (const OpponentCandidate& candidate : opponent_candidates(network)) {
      Entry& entry = entries_.emplace_back();
      entry.result.name = candidate.name;
      options.say("preparing " + candidate.name);
      const Clock::time_point begin = Clock::now();
      try {
        entry.opponent = make_opponent(candidate, network, matrix);
        entry.result.settings = entry.opponent->settings();
        entry.result.ran = true;
      } catch (const OpponentRefusal& refusal) {
        entry.refuse(refusal.what());
      }
      entry.result.preparation_s = std::chrono::duration<double>(Clock::now() - begin).count();
    }
  }

  void run_each(const Stream& stream, bool warm_up) {
    for (Entry& entry : entries_) {
      if (!entry.opponent) {
        continue;
      }
      try {
        double& fastest_us = fastest_us_.try_emplace(library_of(entry.result), kNever).first->second;
        if (!warm_up && entry.warm_up_us > kHopeless * fastest_us) {
          entry.step_us = {entry.warm_up_us};
          entry.result.note = "one sample: it took " + fixed(entry.warm_up_us / fastest_us, 1) +
                              " times as long as the fastest of its library";
          entry.opponent.reset();
          continue;
        }
        const std::vector<double> ms = time_ms(stream, 0, 1, [&](cudaStream_t on) { entry.opponent->enqueue(on); });
        const double step_us = 1e3 * ms[0] / entry.opponent->steps();
        if (warm_up) {
          entry.warm_up_us = step_us;
          fastest_us = std::min(fastest_us, step_us);
        } else {
          entry.step_us.push_back(step_us);
        }
      } catch (const CudaError& error) {
        entry.refuse(error.what());
      }
    }
  }

  std::vector<OpponentResult> results() {
    std::vector<OpponentResult> results;
    for (Entry& entry : entries_) {
      entry.result.step_us = summarize(entry.step_us);
      results.push_back(entry.result);
    }
    return results;
  }

 private:
  struct Entry {
    OpponentResult result;
    std::unique_ptr<Opponent> opponent;
    std::vector<double> step_us;
    double warm_up_us = 0;

    void refuse(const std::string& reason) {
      opponent.reset();
      result.ran = false;
      result.refusal = reason;
      step_us.clear();
    }
  };
  static std::string library_of(const OpponentResult& result) { return result.name.substr(0, result.name.find(' ')); }

  static constexpr double kNever = std::numeric_limits<double>::infinity();
  // Times the fastest of its library: cannot be the fastest by chance, and the warm-up remains its only sample.
  static constexpr double kHopeless = 2.5;
  std::map<std::string, double> fastest_us_;  // by library
  std::vector<Entry> entries_;
};

}  // namespace

Prepared prepare(const Network& network, const Plan& plan, std::shared_ptr<const SparseMatrix> matrix,
                 const MeasureOptions& options) {
  if (2.0 * network.steps * network.batch * network.rows() * info(network.precision).bytes > kMostSequenceBytes) {
    throw InputError("a sequence of " + std::to_string(network.steps) +
                     " steps is too long to measure: its input has more than 4 GB");
  }
  Prepared result{std::move(matrix), {}, {}, {}, {}, {}};
  result.layout = make_layout(network, plan, *result.matrix);
  const std::size_t state = static_cast<std::size_t>(network.batch) * network.hidden;
  result.initial = random_values(state, network.precision, options.seed);
  result.initial_cell = random_values(state, network.precision, options.seed + 2);
  result.input =
      random_values(state * info(network.cell).gates * options.check_steps, network.precision, options.seed + 1);

  const std::vector<float> first_state = transpose<float>(result.initial, network.batch, network.hidden);
  const std::vector<float> first_cell = transpose<float>(result.initial_cell, network.batch, network.hidden);
  const std::vector<float> input = transpose<float>(result.input, network.batch, network.rows());
  ReferenceInput reference{
      .batch = network.batch, .steps = options.check_steps, .initial = first_state, .input = input};
  if (network.cell == Cell::lstm) {
    reference.initial_cell = first_cell;
  }
  const std::vector<double> states =
      reference_states(*result.matrix, network.cell, network.precision, reference).states;
  result.expected = transpose<double>(states, network.hidden, network.batch);
  return result;
}

Measurement measure(const Prepared& prepared, const MeasureOptions& options) {
  const Layout& layout = prepared.layout;
  const Network& network = layout.network;
  PersistentKernel kernel(layout);
  Measurement result;
  result.registers = kernel.resources().registers;
  result.fingerprint = kernel.fingerprint();
  result.tolerance = tolerance_of(network.precision);

  const std::size_t state = static_cast<std::size_t>(network.batch) * network.hidden;
  const std::size_t step_input = state * info(network.cell).gates;
  const auto most_steps = static_cast<std::size_t>(std::max(network.steps, options.check_steps));
  // The input repeats after a few steps of fresh random numbers, so that long runs need no long uploads.
  std::vector<float> input(most_steps * step_input);
  for (std::size_t i = 0; i < input.size(); ++i) {
    input[i] = prepared.input[i % prepared.input.size()];
  }
  const DeviceBuffer<std::byte> device_initial(to_elements(prepared.initial, network.precision));
  const DeviceBuffer<std::byte> device_cell(to_elements(prepared.initial_cell, network.precision));
  const DeviceBuffer<std::byte> device_input(to_elements(input, network.precision));
  const DeviceBuffer<std::byte> device_output(most_steps * state * info(network.precision).bytes);

  const Stream stream;
  Sequences sequences;
  sequences.input = device_input.data();
  sequences.initial = device_initial.data();
  sequences.initial_cell = device_cell.data();
  sequences.output = device_output.data();

  ONCHIP_CUDA_CHECK(cudaMemset(device_output.data(), 0xff, device_output.bytes()));
  sequences.steps = options.check_steps;
  kernel.enqueue(stream.get(), sequences);
  stream.synchronize();
  kernel.check_status();
  std::vector<std::byte> elements = device_output.download();
  elements.resize(state * options.check_steps * info(network.precision).bytes);
  const std::vector<float> got = from_elements(elements, network.precision);
  result.relative_error = relative_error(prepared.expected, got);
  result.correct = result.relative_error <= result.tolerance;
  if (!result.correct) {
    return result;
  }

  EventTimer timer;
  const auto time_us = [&](const auto& enqueue) {
    timer.start(stream.get());
    enqueue();
    timer.stop(stream.get());
    return timer.milliseconds() * 1e3;
  };
  sequences.steps = network.steps;
  std::optional<Opponents> opponents;
  if (options.opponents) {
    opponents.emplace(network, *prepared.matrix, options);
  }
  std::optional<PersistentKernel> exchange;
  if (options.floor) {
    exchange.emplace(layout, Biases{}, 2048, Work::exchange_only);
    sequences.output = nullptr;
    exchange->enqueue(stream.get(), sequences);
    sequences.output = device_output.data();
  }
  constexpr int kWarmUps = 4;
  std::vector<double> step_us, exchange_us, sequence_us;
  // (time of 2 T steps - time of T steps) / T
  const auto steady_us = [&](PersistentKernel& which) {
    const double short_us = time_us([&] { which.enqueue_recurrence(stream.get(), network.steps); });
    const double long_us = time_us([&] { which.enqueue_recurrence(stream.get(), 2 * std::int64_t{network.steps}); });
    return (long_us - short_us) / network.steps;
  };
  for (int repeat = -kWarmUps; repeat < options.repeats; ++repeat) {
    const double whole_us = time_us([&] { kernel.enqueue(stream.get(), sequences); });
    const double step = steady_us(kernel);
    const double exchanging = exchange ? steady_us(*exchange) : 0;
    if (repeat >= 0) {
      step_us.push_back(step);
      if (exchange) {
        exchange_us.push_back(exchanging);
      }
      sequence_us.push_back(whole_us);
    }
    if (opponents && repeat >= -1) {  // one warm-up is enough for what takes longer
      opponents->run_each(stream, /*warm_up=*/repeat < 0);
    }
  }
  kernel.check_status();
  if (exchange) {
    exchange->check_status();
  }
  result.step_us = summarize(std::move(step_us));
  result.exchange_us = summarize(std::move(exchange_us));
  result.sequence_us = summarize(std::move(sequence_us));
  if (opponents) {
    result.opponents = opponents->results();
  }
  if (options.clocks) {
    result.clocks = measure_step_clocks(layout);
  }
  return result;
}

}  // namespace onchip
