// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/measurement.hpp"

#include "experiments/measurement/interpreted/interpret.hpp"
#include "experiments/measurement/timed_baselines.hpp"
#include "kernels/baselines/random_fill.hpp"
#include "kernels/recurrent/persistent_kernel.hpp"
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/base/table.hpp"
#include "model/workload/reference.hpp"

#include <algorithm>
#include <cmath>
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

// Host copies of input and output are several times this.
constexpr double kMostSequenceBytes = 8e9;

}  // namespace

Prepared prepare(const Recurrent& network, const Plan& plan, std::shared_ptr<const SparseMatrix> matrix,
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

Prepared prepare_row(const Configuration& configuration, const PlannedNetwork& planned,
                     std::shared_ptr<const SparseMatrix> matrix, const MeasureOptions& options) {
  if (!planned.prediction.footprint.fits) {
    throw InputError(describe(planned.network) + ' ' + explain(planned.prediction.footprint));
  }
  return prepare(configuration.network, planned.plan, std::move(matrix), options);
}

std::vector<Prepared> prepare_all(const Recurrent& network, std::span<const Plan> plans,
                                  std::shared_ptr<const SparseMatrix> matrix, const MeasureOptions& options) {
  std::vector<Prepared> all;
  for (const Plan& plan : plans) {
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

// A plan's kernel, checked when it is made, then timed sample by sample.
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
    if (options.floor && result_.correct) {
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

  bool correct() const { return result_.correct; }
  const Stream& stream() const { return stream_; }

  void sample(bool warm_up) {
    const double whole_us = time_us([&] { kernel_.enqueue(stream_.get(), sequences_); });
    const double step_us = steady_us(kernel_);
    const double exchange_us = exchange_ ? steady_us(*exchange_) : 0;
    if (warm_up) {
      return;
    }
    sequence_us_.push_back(whole_us);
    step_us_.push_back(step_us);
    if (exchange_) {
      exchange_us_.push_back(exchange_us);
    }
  }

  StepClocks clocks(const Layout& layout) const {
    Sequences sequences = sequences_;
    sequences.output = nullptr;
    return measure_step_clocks(layout, sequences);
  }

  Measurement result() {
    if (result_.correct) {
      kernel_.check_status();
      if (exchange_) {
        exchange_->check_status();
      }
      result_.step_us = summarize(step_us_);
      result_.exchange_us = summarize(exchange_us_);
      result_.sequence_us = summarize(sequence_us_);
    }
    return result_;
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
    timer_.start(stream_.get());
    enqueue();
    timer_.stop(stream_.get());
    return timer_.milliseconds() * 1e3;
  }

  // (time of 2 T steps - time of T steps) / T, of steps whose input is in L2, where putting it in order leaves it: the
  // second T steps' may have made room for what ran in between.
  double steady_us(PersistentKernel& which) {
    const std::int64_t steps = network_.steps;
    which.enqueue_recurrence(stream_.get(), 2 * steps);
    const double short_us = time_us([&] { which.enqueue_recurrence(stream_.get(), steps); });
    const double long_us = time_us([&] { which.enqueue_recurrence(stream_.get(), 2 * steps); });
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
  std::vector<double> step_us_, exchange_us_, sequence_us_;
};

constexpr int kWarmUps = 4;

}  // namespace

Measurement measure(const Prepared& prepared, const MeasureOptions& options) {
  TimedKernel kernel(prepared, options);
  if (!kernel.correct()) {
    return kernel.result();
  }
  std::optional<TimedBaselines> baselines;
  if (options.baselines) {
    const auto all = [](const BaselineCandidate&) { return true; };
    const Recurrent& network = network_of(prepared.layout);
    baselines.emplace(baseline_candidates(network), network, *prepared.matrix, all, options.say);
  }
  for (int repeat = -kWarmUps; repeat < options.repeats; ++repeat) {
    kernel.sample(/*warm_up=*/repeat < 0);
    if (baselines && repeat >= -1) {  // one warm-up is enough for what takes longer
      baselines->run_each(kernel.stream(), /*warm_up=*/repeat < 0);
    }
  }
  Measurement result = kernel.result();
  if (baselines) {
    result.baselines = baselines->results();
  }
  if (options.clocks) {
    result.clocks = kernel.clocks(prepared.layout);
  }
  return result;
}

namespace {

// "cublas" of cublas_graph, as its baselines' names begin.
std::string_view library_of(std::string_view family) {
  return family.substr(0, family.find('_'));
}

// The library's fastest baseline as the measurement of its family.
FamilyMeasurement fastest_of(std::string_view family, std::span<const BaselineResult> results) {
  FamilyMeasurement measured;
  measured.family = family;
  const BaselineResult* best = nullptr;
  for (const BaselineResult& result : results) {
    if (result.name.substr(0, result.name.find(' ')) != library_of(family)) {
      continue;
    }
    if (!result.ran) {
      measured.problem += (measured.problem.empty() ? "" : "; ") + result.name + ": " + result.refusal;
    } else if (best == nullptr || result.step_us.median < best->step_us.median) {
      best = &result;
    }
  }
  if (best != nullptr) {
    measured.ran = best->name;
    measured.settings = best->settings;
    measured.problem.clear();
    measured.measurement.correct = true;
    measured.measurement.step_us = best->step_us;
  }
  return measured;
}

}  // namespace

std::vector<FamilyMeasurement> measure_families(const Recurrent& network, const SparseMatrix& matrix,
                                                std::span<const Prepared> kernels,
                                                std::span<const std::string_view> libraries,
                                                const MeasureOptions& options) {
  std::vector<FamilyMeasurement> measured;
  std::vector<std::unique_ptr<TimedKernel>> timed;
  for (const Prepared& prepared : kernels) {
    FamilyMeasurement& one = measured.emplace_back();
    one.family = family_name(plan_of(prepared.layout));
    std::unique_ptr<TimedKernel>& kernel = timed.emplace_back();
    try {
      kernel = std::make_unique<TimedKernel>(prepared, options);
      if (!kernel->correct()) {
        one.measurement = kernel->result();
        one.problem = "wrong: relative error " + significant(one.measurement.relative_error, 3) + ", at most " +
                      significant(one.measurement.tolerance, 3) + " allowed";
        kernel.reset();
      }
    } catch (const CudaError& error) {  // it spills, or does not compile
      one.problem = error.what();
    }
  }
  const auto is_wanted = [&](const BaselineCandidate& candidate) {
    return candidate.likely && std::ranges::any_of(libraries, [&](std::string_view family) {
             return candidate.library() == library_of(family);
           });
  };
  TimedBaselines baselines(baseline_candidates(network), network, matrix, is_wanted, options.say);
  const Stream stream;
  for (int repeat = -kWarmUps; repeat < options.repeats; ++repeat) {
    for (const auto& kernel : timed) {
      if (kernel) {
        kernel->sample(/*warm_up=*/repeat < 0);
      }
    }
    if (repeat >= -1) {
      baselines.run_each(stream, /*warm_up=*/repeat < 0);
    }
  }
  for (std::size_t i = 0; i < timed.size(); ++i) {
    if (timed[i]) {
      measured[i].measurement = timed[i]->result();
    }
  }
  const std::vector<BaselineResult> results = baselines.results();
  for (const std::string_view family : libraries) {
    measured.push_back(fastest_of(family, results));
  }
  return measured;
}

}  // namespace onchip
