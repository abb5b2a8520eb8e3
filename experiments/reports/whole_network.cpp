// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/whole_network.hpp"

#include "experiments/command/report.hpp"
#include "experiments/measurement/manifest.hpp"
#include "kernels/recurrent/persistent_kernel.hpp"
#include "kernels/runtime/cublas.hpp"
#include "model/base/error.hpp"
#include "model/workload/reference.hpp"

#include <cmath>
#include <deque>
#include <random>
#include <vector>

namespace onchip {
namespace {

// Uniform in [-bound, bound), rounded to the type of the state.
std::vector<float> random_elements(std::size_t count, Precision precision, std::uint64_t seed, double bound) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(bound * (static_cast<double>(random() >> 11) * 0x1p-52 - 1));
  }
  return from_elements(to_elements(values, precision), precision);
}

// Weights of the inputs, by layer and direction, and the input of all steps.
struct HostNetwork {
  Recurrent network;
  Stack stack;
  std::vector<std::vector<float>> input_weights;  // [rows, columns_of(layer)]
  std::vector<float> input;                       // [steps, batch, columns_of(0)]

  HostNetwork(const Recurrent& of_network, const Stack& of_stack, std::uint64_t seed)
      : network(of_network), stack(of_stack) {
    for (int place = 0; place < stack.layers * stack.directions(); ++place) {
      const auto columns = static_cast<std::size_t>(columns_of(place / stack.directions()));
      input_weights.push_back(random_elements(columns * network.rows(), network.precision, seed + 1 + place,
                                              1 / std::sqrt(static_cast<double>(columns))));
    }
    input = random_elements(static_cast<std::size_t>(network.steps) * network.batch * columns_of(0), network.precision,
                            seed, 1);
  }
  int columns_of(int layer) const { return stack.columns(network, layer); }
};

// The same on the device. All layers share what they need for one.
class DeviceNetwork {
 public:
  DeviceNetwork(const HostNetwork& host, const Layout& layout)
      : host_(host),
        input_(elements(host.input)),
        projected_(samples() * host.network.rows()),
        outputs_{DeviceBuffer<std::byte>(samples() * host.stack.directions() * host.network.hidden),
                 DeviceBuffer<std::byte>(samples() * host.stack.directions() * host.network.hidden)} {
    for (const std::vector<float>& weights : host.input_weights) {
      places_.emplace_back(elements(weights), PersistentKernel(layout, {}, host.network.steps));
    }
    cublas_.use(stream_.get());
  }

  void enqueue(int steps, bool products_only) {
    const Recurrent& network = host_.network;
    const std::byte* from = input_.data();
    for (int layer = 0; layer < host_.stack.layers; ++layer) {
      const int columns = host_.columns_of(layer), directions = host_.stack.directions();
      std::byte* const output = outputs_[layer % 2].data();
      for (int direction = 0; direction < directions; ++direction) {
        auto& [weights, kernel] = places_[static_cast<std::size_t>(layer * directions + direction)];
        cublas_.multiply({.rows = network.rows(),
                          .columns = steps * network.batch,
                          .depth = columns,
                          .precision = network.precision,
                          .transposed = true,
                          .a = weights.data(),
                          .leading_a = columns,
                          .b = from,
                          .leading_b = columns,
                          .c = projected_.data(),
                          .leading_c = network.rows()});
        if (!products_only) {
          Sequences sequences;
          sequences.steps = steps;
          sequences.input = projected_.data();
          sequences.output =
              output + static_cast<std::size_t>(direction) * network.hidden * info(network.precision).bytes;
          sequences.output_stride = directions * network.hidden;
          sequences.backward = direction == 1;
          kernel.enqueue(stream_.get(), sequences);
        }
      }
      from = output;
    }
  }

  double time_us(bool products_only) {
    timer_.start(stream_.get());
    enqueue(host_.network.steps, products_only);
    timer_.stop(stream_.get());
    return 1e3 * timer_.milliseconds();
  }

  // Of the last layer, [steps, batch, directions, hidden].
  std::vector<float> output(int steps) {
    stream_.synchronize();
    for (auto& [weights, kernel] : places_) {
      kernel.check_status();
    }
    std::vector<std::byte> bytes = outputs_[(host_.stack.layers - 1) % 2].download();
    bytes.resize(bytes.size() / host_.network.steps * steps);
    return from_elements(bytes, host_.network.precision);
  }

 private:
  DeviceBuffer<std::byte> elements(const std::vector<float>& values) const {
    return DeviceBuffer<std::byte>(to_elements(values, host_.network.precision));
  }
  std::size_t samples() const {  // of all steps, in bytes of an element
    return static_cast<std::size_t>(host_.network.steps) * host_.network.batch * info(host_.network.precision).bytes;
  }

  const HostNetwork& host_;
  DeviceBuffer<std::byte> input_, projected_, outputs_[2];
  std::deque<std::pair<DeviceBuffer<std::byte>, PersistentKernel>> places_;
  Stream stream_;
  Cublas cublas_{/*allows_short_sums=*/false};
  EventTimer timer_;
};

std::vector<double> reference_output(const HostNetwork& host, const SparseMatrix& matrix, int steps) {
  std::vector<ReferenceLayer> layers;
  for (const std::vector<float>& weights : host.input_weights) {
    layers.push_back({.input_weights = weights, .recurrent_weights = matrix});
  }
  const Recurrent& network = host.network;
  const std::size_t input = static_cast<std::size_t>(steps) * network.batch * host.columns_of(0);
  return reference_stack(layers, network.cell, network.precision,
                         {.input_size = host.columns_of(0),
                          .directions = host.stack.directions(),
                          .batch = network.batch,
                          .steps = steps,
                          .input = std::span(host.input).first(input),
                          .round_state = true})
      .output;
}

}  // namespace

int measure_whole_network(const ChipFile& chip, const Configuration& configuration, const Stack& stack,
                          const MeasureOptions& options, Output& output) {
  constexpr int kWarmUps = 4;
  const Manifest manifest = current_manifest();
  warn_of_other_chip(chip.chip, manifest);
  const auto matrix = recurrent_matrix(configuration);
  Question question{chip, configuration};
  question.configuration.plan =
      compiled_plan(chip.chip, configuration, row_profile(configuration, *matrix), manifest.architecture).plan;
  const WholeNetworkAnswer predicted = predict(question, stack);
  const PlannedNetwork& planned = predicted.of_layer.answer.planned;
  if (predicted.parts.empty()) {
    throw InputError(describe(planned.network) + ' ' + explain(planned.prediction.footprint));
  }
  options.say("measuring " + describe(planned.network));
  const HostNetwork host(planned.network, stack, options.seed);
  DeviceNetwork device(host, make_layout(planned.network, planned.plan, *matrix));
  const int checked = std::min(options.check_steps, planned.network.steps);
  device.enqueue(checked, /*products_only=*/false);
  // Each layer rounds what it hands on.
  const double error = relative_error(reference_output(host, *matrix, checked), device.output(checked));
  const double tolerance = stack.layers * std::max(4 * info(planned.network.precision).unit_roundoff, 2e-6);
  const bool is_correct = error <= tolerance;
  std::vector<double> whole_us, products_us;
  for (int repeat = -kWarmUps; is_correct && repeat < options.repeats; ++repeat) {
    const double whole = device.time_us(false), products = device.time_us(true);
    if (repeat >= 0) {
      whole_us.push_back(whole);
      products_us.push_back(products);
    }
  }
  const Timing whole = summarize(whole_us), products = summarize(products_us);
  double predicted_products_us = 0;
  for (const SequencePart& part : predicted.parts) {
    predicted_products_us += part.name == kInputProduct ? part.us : 0;
  }
  const int input = host.columns_of(0);
  Report report;
  report.json = to_json(predicted);
  report.json["device"] = manifest.gpu;
  report.json["relative_error"] = rounded(error);
  report.json["tolerance"] = rounded(tolerance);
  report.json["correct"] = is_correct;
  report.json["measured"] = {{"us", rounded(whole.median)},
                             {"interval_us", {rounded(whole.low), rounded(whole.high)}},
                             {"products_us", rounded(products.median)},
                             {"samples", whole.samples}};
  report.csv.columns = configuration_columns();
  report.csv.rows = {configuration_cells(configuration)};
  const std::vector<std::pair<std::string, std::string>> cells{
      {"plan", to_string(planned.plan)},
      {"layers", std::to_string(stack.layers)},
      {"directions", std::to_string(stack.directions())},
      {"input", std::to_string(input)},
      {"relative_error", significant(error, 4)},
      {"tolerance", significant(tolerance, 4)},
      {"correct", is_correct ? "1" : "0"},
      {"us", significant(whole.median, 6)},
      {"low_us", significant(whole.low, 6)},
      {"high_us", significant(whole.high, 6)},
      {"products_us", significant(products.median, 6)},
      {"predicted_us", significant(predicted.total.us, 6)},
      {"predicted_products_us", significant(predicted_products_us, 6)},
      {"samples", std::to_string(whole.samples)}};
  for (const auto& [column, cell] : cells) {
    report.csv.columns.push_back(column);
    report.csv.rows[0].push_back(cell);
  }
  report.text = describe(planned.network) + ", " + describe(stack, planned.network) + " on " + manifest.gpu +
                "\n\nplan       " + to_string(planned.plan) + "\ncorrect    " + (is_correct ? "yes" : "NO") +
                ": relative error " + significant(error, 3) + ", at most " + significant(tolerance, 3) + " allowed\n";
  if (is_correct) {
    report.text += "sequence   " + fixed(whole.median, 1) + " us (95 % of " + std::to_string(whole.samples) + ": " +
                   fixed(whole.low, 1) + " to " + fixed(whole.high, 1) + ")\nmodel      " +
                   fixed(predicted.total.us, 1) + " us, off by " +
                   fixed(100 * (predicted.total.us / whole.median - 1), 1) + " %\nproducts   " +
                   fixed(products.median, 1) + " us by cuBLAS, of the input alone; model " +
                   fixed(predicted_products_us, 1) + " us\n";
  }
  output.write(report);
  return is_correct ? 0 : 1;
}

}  // namespace onchip
