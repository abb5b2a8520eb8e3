// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/measurement.hpp"

#include "experiments/measurement/interpreted/interpret.hpp"
#include "kernels/baselines/random_fill.hpp"
#include "kernels/recurrent/recurrence.hpp"
#include "kernels/runtime/device.hpp"
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/base/units.hpp"
#include "model/workload/reference.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <random>

namespace onchip {
namespace {

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

// Host copies of input and output are several times this.
constexpr double kMostSequenceBytes = 8e9;

}  // namespace

std::vector<float> random_values(std::size_t count, Precision precision, std::uint64_t seed, double bound) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = round_to(precision, static_cast<float>(bound * (static_cast<double>(random() >> 11) * 0x1p-52 - 1)));
  }
  return values;
}

void require_fit(const PlannedNetwork& planned) {
  if (!planned.prediction.footprint.fits) {
    throw InputError(describe(planned.network) + ' ' + explain(planned.prediction.footprint));
  }
}

Prepared prepare(const Recurrent& network, const RecurrentPlan& plan, std::shared_ptr<const SparseMatrix> matrix,
                 const MeasureOptions& options) {
  if (2.0 * network.steps * network.batch * network.rows() * info(network.precision).bytes > kMostSequenceBytes) {
    throw InputError("a sequence of " + std::to_string(network.steps) +
                     " steps is too long to measure: its input has more than 4 GB");
  }
  Layout layout = make_layout(network, plan, *matrix);
  Prepared result{std::move(matrix), std::move(layout), {}, {}, {}, options.check_steps};
  const std::size_t state = static_cast<std::size_t>(network.batch) * network.hidden;
  result.initial = random_values(state, network.precision, options.seed);
  result.initial_cell = random_values(state, network.precision, options.seed + 2);
  result.input =
      random_values(state * info(network.cell).gates * options.check_steps, network.precision, options.seed + 1);
  return result;
}

std::vector<Prepared> prepare_all(const Recurrent& network, std::span<const RecurrentPlan> plans,
                                  std::shared_ptr<const SparseMatrix> matrix, const MeasureOptions& options) {
  std::vector<Prepared> all;
  for (const RecurrentPlan& plan : plans) {
    if (all.empty()) {
      all.push_back(prepare(network, plan, matrix, options));
    } else {
      all.push_back(all.front());
      all.back().layout = make_layout(network, plan, *matrix);
    }
  }
  return all;
}

Correctness check_elements(const Prepared& prepared, std::span<const std::byte> elements) {
  const Recurrent& network = network_of(prepared.layout);
  const auto by_unit = [&](std::span<const float> values, int rows) {
    return transpose<float>(values, network.batch, static_cast<std::size_t>(rows));
  };
  const std::vector<float> initial = by_unit(prepared.initial, network.hidden);
  const std::vector<float> initial_cell = by_unit(prepared.initial_cell, network.hidden);
  const std::vector<float> input = by_unit(prepared.input, network.rows());
  ReferenceInput in{.batch = network.batch, .steps = prepared.check_steps, .initial = initial, .input = input};
  if (network.cell == Cell::lstm) {
    in.initial_cell = initial_cell;
  }
  return check_steps(*prepared.matrix, network.cell, network.precision, in,
                     by_unit(from_elements(elements, network.precision), network.hidden));
}

Interpretation interpret(const Prepared& prepared, const MeasureOptions& options) {
  const Recurrent& network = network_of(prepared.layout);
  InterpretedKernel kernel(prepared.layout, {}, options.check_steps);
  std::vector<std::byte> initial = to_elements(prepared.initial, network.precision);
  std::vector<std::byte> cell = to_elements(prepared.initial_cell, network.precision);
  std::vector<std::byte> input = to_elements(prepared.input, network.precision);
  const std::size_t bytes = prepared.initial.size() * static_cast<std::size_t>(options.check_steps) *
                            static_cast<std::size_t>(info(network.precision).bytes);
  std::vector<std::byte> output(bytes, std::byte{0xff});  // a NaN until it is written
  for (std::vector<std::byte>* const memory : {&initial, &cell, &input, &output}) {
    kernel.allow(*memory);
  }
  Sequences sequences;
  sequences.steps = options.check_steps;
  sequences.input = input.data();
  sequences.initial = initial.data();
  sequences.initial_cell = cell.data();
  sequences.output = output.data();
  kernel.run(sequences);
  return {check_elements(prepared, output), kernel.counts().lane_instructions};
}

namespace {

// The kernel run once with clocks, which take some time themselves, up to a tenth of a short step.
constexpr int kClockedSteps = 64;
StepClocks measure_step_clocks(const Layout& layout, Sequences sequences) {
  constexpr int kWarmUpSteps = 16;
  constexpr std::size_t kMarks = kStepMarks.size();
  PersistentKernel kernel(layout, {}, kClockedSteps, Work::clocked);
  const Stream stream;
  sequences.steps = kClockedSteps;
  kernel.enqueue(stream.get(), sequences);
  stream.synchronize();
  kernel.check_status();

  const std::vector<std::uint32_t> clocks = kernel.record();
  const std::size_t sms = kernel.shape().recorded_sms, warps = kernel.shape().recorded_warps;
  const std::size_t per_step = sms * warps * kMarks;
  StepClocks result;
  for (std::size_t step = kWarmUpSteps; step < kClockedSteps; ++step) {
    for (std::size_t sm = 0; sm < sms; ++sm) {
      std::array<double, kMarks> slowest{};
      for (std::size_t warp = 0; warp < warps; ++warp) {
        const std::size_t first = step * per_step + (sm * warps + warp) * kMarks;
        for (std::size_t mark = 0; mark < kMarks; ++mark) {
          const std::uint32_t before = clocks[mark == 0 ? first - per_step + kMarks - 1 : first + mark - 1];
          const double cycles = clocks[first + mark] - before;  // modulo 2^32, as the clock counts
          result.mean[mark] += cycles / static_cast<double>(warps);
          slowest[mark] = std::max(slowest[mark], cycles);
        }
      }
      for (std::size_t mark = 0; mark < kMarks; ++mark) {
        result.slowest[mark] += slowest[mark];
      }
    }
  }
  for (std::size_t mark = 0; mark < kMarks; ++mark) {
    result.mean[mark] /= static_cast<double>(kClockedSteps - kWarmUpSteps) * static_cast<double>(sms);
    result.slowest[mark] /= static_cast<double>(kClockedSteps - kWarmUpSteps) * static_cast<double>(sms);
  }
  return result;
}

// A plan's kernel, checked when it is made; its ways are timed.
class TimedKernel {
 public:
  TimedKernel(const Prepared& prepared, const MeasureOptions& options)
      : network_(network_of(prepared.layout)),
        kernel_(prepared.layout),
        initial_(to_elements(prepared.initial, network_.precision)),
        cell_(to_elements(prepared.initial_cell, network_.precision)),
        input_(input_steps(options) * state() * info(network_.cell).gates * info(network_.precision).bytes),
        output_(most_steps(options) * state() * info(network_.precision).bytes) {
    // The input repeats after a few steps of fresh random numbers, so that long runs need no long uploads.
    fill(input_, network_.precision, prepared.input);
    sequences_.input = input_.data();
    sequences_.initial = initial_.data();
    sequences_.initial_cell = cell_.data();
    sequences_.output = output_.data();
    result_.registers = kernel_.resources().registers;
    result_.fingerprint = kernel_.fingerprint();
    result_.code_fingerprint = kernel_.code_fingerprint();
    check(prepared);
    if (!result_.correct) {
      result_.failure = "wrong: relative error " + significant(result_.relative_error, 3) + ", at most " +
                        significant(result_.tolerance, 3) + " allowed";
      return;
    }
    if (options.floor) {
      exchange_.emplace(prepared.layout, Biases{}, 2048, Work::exchange_only);
    }
    // The input of all steps that are timed alone.
    sequences_.steps = 2 * network_.steps;
    sequences_.output = nullptr;
    kernel_.enqueue(stream_.get(), sequences_);
    if (exchange_) {
      exchange_->enqueue(stream_.get(), sequences_);
    }
    sequences_.steps = network_.steps;
    sequences_.output = output_.data();
  }

  const Measurement& result() const { return result_; }

  // The whole sequence, a step and, if asked for, its exchange alone.
  std::vector<Way> ways() {
    std::vector<Way> ways{{.name = "sequence",
                           .sample =
                               [this] {
                                 const double us = time_us([&] { kernel_.enqueue(stream_.get(), sequences_); });
                                 kernel_.check_status();
                                 return std::vector{us};
                               }},
                          {.name = "step", .sample = [this] { return std::vector{steady_us(kernel_)}; }}};
    if (exchange_) {
      ways.push_back({.name = "exchange", .sample = [this] { return std::vector{steady_us(*exchange_)}; }});
    }
    return ways;
  }

  StepClocks clocks(const Layout& layout) const {
    Sequences sequences = sequences_;
    sequences.output = nullptr;
    return measure_step_clocks(layout, sequences);
  }

 private:
  std::size_t state() const { return static_cast<std::size_t>(network_.batch) * network_.hidden; }
  std::size_t most_steps(const MeasureOptions& options) const {
    return static_cast<std::size_t>(std::max(network_.steps, options.check_steps));
  }
  std::size_t input_steps(const MeasureOptions& options) const {
    return std::max<std::size_t>(2 * most_steps(options), kClockedSteps);
  }

  void check(const Prepared& prepared) {
    poison(output_);
    sequences_.steps = prepared.check_steps;
    kernel_.enqueue(stream_.get(), sequences_);
    stream_.synchronize();
    kernel_.check_status();
    std::vector<std::byte> elements(state() * prepared.check_steps * info(network_.precision).bytes);
    ONCHIP_CUDA_CHECK(cudaMemcpy(elements.data(), output_.data(), elements.size(), cudaMemcpyDeviceToHost));
    const Correctness correctness = check_elements(prepared, elements);
    result_.tolerance = correctness.tolerance;
    result_.relative_error = correctness.relative_error;
    result_.correct = correctness.correct;
  }

  template <typename Enqueue>
  double time_us(const Enqueue& enqueue) {
    return 1e3 * timer_.milliseconds_of(stream_.get(), enqueue);
  }

  // (time of 2 T steps - time of T steps) / T, of steps whose input is in L2, where putting it in order leaves it: the
  // second T steps' may have made room for what ran in between.
  double steady_us(PersistentKernel& which) {
    const std::int64_t steps = network_.steps;
    which.enqueue_recurrence(stream_.get(), 2 * steps);
    const double short_us = time_us([&] { which.enqueue_recurrence(stream_.get(), steps); });
    const double long_us = time_us([&] { which.enqueue_recurrence(stream_.get(), 2 * steps); });
    which.check_status();
    return (long_us - short_us) / static_cast<double>(steps);
  }

  Recurrent network_;
  PersistentKernel kernel_;
  std::optional<PersistentKernel> exchange_;
  DeviceBuffer<std::byte> initial_, cell_, input_, output_;
  Stream stream_;
  EventTimer timer_;
  Sequences sequences_;
  Measurement result_;
};

}  // namespace

MeasuredNetwork measure(const Recurrent& network, const SparseMatrix& matrix, std::span<const Prepared> kernels,
                        const std::vector<BaselineCandidate>& libraries, const MeasureOptions& options) {
  MeasuredNetwork measured;
  std::vector<std::unique_ptr<TimedKernel>> timed;
  std::vector<Way> ways;
  std::vector<std::size_t> first_way;  // of each kernel
  for (const Prepared& prepared : kernels) {
    Measurement& one = measured.kernels.emplace_back();
    first_way.push_back(ways.size());
    try {
      timed.push_back(std::make_unique<TimedKernel>(prepared, options));
      one = timed.back()->result();
      if (one.correct) {
        std::ranges::move(timed.back()->ways(), std::back_inserter(ways));
      }
    } catch (const CudaError& error) {  // it spills, or does not compile
      timed.resize(measured.kernels.size());
      one.failure = error.what();
    }
  }
  const auto kernel_ways = static_cast<std::ptrdiff_t>(ways.size());
  std::ranges::move(baseline_ways(libraries, network, matrix, options.say), std::back_inserter(ways));
  options.say("measuring " + describe(network));
  time_ways(ways, options.timing);
  for (std::size_t i = 0; i < timed.size(); ++i) {
    Measurement& one = measured.kernels[i];
    if (!one.correct) {
      continue;
    }
    const Way &sequence = ways[first_way[i]], &step = ways[first_way[i] + 1];
    one.sequence_us = sequence.time;
    one.step_us = step.time;
    one.exchange_us = options.floor ? ways[first_way[i] + 2].time : Timing();
    one.failure = step.failure.empty() ? sequence.failure : step.failure;
    if (options.clocks && one.failure.empty()) {
      one.clocks = timed[i]->clocks(kernels[i].layout);
    }
  }
  measured.libraries.assign(std::move_iterator(ways.begin() + kernel_ways), std::move_iterator(ways.end()));
  return measured;
}

}  // namespace onchip
