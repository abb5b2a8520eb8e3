// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/whole_network.hpp"

#include "experiments/measurement/manifest.hpp"
#include "experiments/reports/measure_report.hpp"
#include "kernels/api/confirmed_plan.hpp"
#include "kernels/recurrent/recurrence.hpp"
#include "kernels/runtime/cublas.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/training/training_layer.hpp"
#include "model/workload/reference.hpp"

#include <cmath>
#include <deque>
#include <optional>
#include <vector>

namespace onchip {
namespace {

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
      input_weights.push_back(random_values(columns * network.rows(), network.precision, seed + 1 + place,
                                            1 / std::sqrt(static_cast<double>(columns))));
    }
    input = random_values(static_cast<std::size_t>(network.steps) * network.batch * columns_of(0), network.precision,
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

  Way way(const std::string& name, bool products_only) {
    return {.name = name, .sample = [this, products_only] {
              return std::vector{
                  1e3 * timer_.milliseconds_of(stream_.get(), [&] { enqueue(host_.network.steps, products_only); })};
            }};
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

// The same as a dense stack of which several layers may be on the SMs at once.
class DeviceStack {
 public:
  DeviceStack(const HostNetwork& host, const SparseMatrix& matrix, const Chip& chip, const std::string& architecture,
              const TrainingPlan& plan)
      : size_(size_of({host.network, host.stack})),
        recurrent_(to_elements(to_dense(matrix), host.network.precision)),
        input_(to_elements(host.input, host.network.precision)),
        output_(static_cast<std::size_t>(host.network.steps) * host.network.batch * host.network.hidden *
                info(host.network.precision).bytes),
        precision_(host.network.precision) {
    size_.layers = host.stack.layers;
    layer_.emplace(size_, precision_, confirmed_plan(chip, size_, precision_, nullptr, plan, architecture).chosen,
                   chip);
    workspace_.emplace(layer_->forward_bytes());
    const TrainingProgram& training = layer_->training();
    places_.resize(training.program.arrays.size());
    for (std::size_t i = 0; i < training.layers.size(); ++i) {
      const TrainingArrays& arrays = training.layers[i];
      weights_.emplace_back(to_elements(host.input_weights[i], precision_));
      places_[arrays.w_ih] = weights_.back().data();
      places_[arrays.w_hh] = recurrent_.data();
    }
    places_[training.layers.front().x] = input_.data();
    places_[training.layers.back().y] = output_.data();
  }

  Way way() {
    return {.name = "stack",
            .sample = [this] { return std::vector{1e3 * timer_.milliseconds_of(stream_.get(), [&] { enqueue(); })}; }};
  }
  std::vector<float> output(int steps) {
    enqueue();
    TrainingLayer::check(stream_.get());
    std::vector<std::byte> bytes = output_.download();
    bytes.resize(bytes.size() / size_.steps * steps);
    return from_elements(bytes, precision_);
  }

 private:
  void enqueue() { layer_->enqueue(stream_.get(), TrainingHalf::forward, {places_}, 0, workspace_->data()); }

  TrainingSize size_;
  DeviceBuffer<std::byte> recurrent_, input_, output_;
  Precision precision_;
  std::optional<TrainingLayer> layer_;
  std::optional<DeviceBuffer<std::byte>> workspace_;
  std::deque<DeviceBuffer<std::byte>> weights_;
  std::vector<std::byte*> places_;
  Stream stream_;
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

struct MeasuredStack {
  const Configuration& configuration;
  const WholeNetworkAnswer& predicted;
  Stack stack;
  double relative_error = 0, tolerance = 0;
  std::optional<double> stack_error = {};  // of the dense stack
  Timing whole_us = {}, products_us = {}, stack_us = {};

  const PlannedNetwork& planned() const { return predicted.of_layer.answer.planned; }
  bool is_correct() const { return relative_error <= tolerance && stack_error.value_or(0) <= tolerance; }
  double predicted_products_us() const {
    double us = 0;
    for (const SequencePart& part : predicted.parts) {
      us += part.name == kInputProduct ? part.us : 0;
    }
    return us;
  }
};

Columns<MeasuredStack> make_stack_columns() {
  using Row = MeasuredStack;
  Columns<Row> columns;
  const auto add_to_csv = [&](const char* name, const char* help, auto get) {
    columns.add(name, "", help, get, "", In::csv);
  };
  columns.add_all(configuration_table(), [](const Row& row) -> const Configuration& { return row.configuration; });
  add_to_csv("plan", "of each layer and direction", [](const Row& row) { return to_string(row.planned().plan); });
  add_to_csv("layers", "stacked", [](const Row& row) { return row.stack.layers; });
  add_to_csv("directions", "1, or 2 of a bidirectional network", [](const Row& row) { return row.stack.directions(); });
  add_to_csv("input", "features of the first layer's input",
             [](const Row& row) { return row.stack.columns(row.planned().network, 0); });
  columns.add("relative_error", "", "against the reference in double precision", &Row::relative_error);
  columns.add("tolerance", "", "the error that is allowed", &Row::tolerance);
  columns.add("correct", "", "whether the results are right", &Row::is_correct);
  columns.add_time("us", "us", "the whole sequence", &Row::whole_us, "measured/us", "low_us", "high_us");
  columns.add_time("products_us", "us", "the products of the inputs alone, by cuBLAS", &Row::products_us,
                   "measured/products_us");
  columns.add_time("stack_us", "us", "the same as a dense stack, of which several layers may be on the SMs at once",
                   &Row::stack_us, "measured/stack_us");
  columns.add("stack_relative_error", "", "of that, against the reference",
              [](const Row& row) { return row.stack_error ? ColumnValue(*row.stack_error) : ColumnValue(); });
  columns.add("predicted_stack_us", "us", "predicted time of the dense stack", [](const Row& row) {
    return row.predicted.dense ? ColumnValue(row.predicted.dense->time.us) : ColumnValue();
  });
  columns.add("stack_plan", "", "of the dense stack", [](const Row& row) {
    return row.predicted.dense ? ColumnValue(to_string(TrainingPlan(row.predicted.dense->plan))) : ColumnValue();
  });
  columns.add("predicted_us", "us", "predicted time of the whole sequence",
              [](const Row& row) { return row.predicted.total.us; });
  columns.add("predicted_products_us", "us", "predicted time of the products", &Row::predicted_products_us);
  columns.add("off_by_percent", "%", "by how much the prediction is above the measurement", [](const Row& row) {
    return row.whole_us.samples > 0 ? ColumnValue(100 * (row.predicted.total.us / row.whole_us.median - 1))
                                    : ColumnValue();
  });
  return columns;
}

}  // namespace

ColumnGroup whole_network_columns() {
  return make_stack_columns().group("whole networks");
}

int measure_whole_network(const ChipFile& chip, const Configuration& configuration, const Stack& stack,
                          const MeasureOptions& options, Output& output) {
  const Manifest manifest = current_manifest();
  const auto matrix = recurrent_matrix(configuration);
  RecurrentQuestion question{chip, configuration};
  question.configuration.plan =
      compiled_plan(chip.chip, configuration, row_profile(configuration, *matrix), manifest.architecture).plan;
  const WholeNetworkAnswer predicted = predict(question, stack);
  const PlannedNetwork& planned = predicted.of_layer.answer.planned;
  require_fit(planned);
  options.say("measuring " + describe(planned.network));
  const HostNetwork host(planned.network, stack, options.seed);
  DeviceNetwork device(host, make_layout(planned.network, planned.plan, *matrix));
  const int checked = std::min(options.check_steps, planned.network.steps);
  device.enqueue(checked, /*products_only=*/false);
  MeasuredStack measured{.configuration = configuration, .predicted = predicted, .stack = stack};
  // Each layer rounds what it hands on.
  measured.relative_error = relative_error(reference_output(host, *matrix, checked), device.output(checked));
  std::optional<DeviceStack> dense;
  if (predicted.dense) {
    dense.emplace(host, *matrix, chip.chip, manifest.architecture, predicted.dense->plan);
    measured.stack_error = relative_error(reference_output(host, *matrix, checked), dense->output(checked));
  }
  measured.tolerance = stack.layers * std::max(4 * info(planned.network.precision).unit_roundoff, 2e-6);
  if (measured.is_correct()) {
    std::vector ways{device.way("sequence", /*products_only=*/false), device.way("products", /*products_only=*/true)};
    if (dense) {
      ways.push_back(dense->way());
    }
    time_ways(ways, options.timing);
    for (const Way& way : ways) {
      if (!way.ran()) {
        throw CudaError(way.failure);
      }
    }
    measured.whole_us = ways[0].time;
    measured.products_us = ways[1].time;
    measured.stack_us = dense ? ways[2].time : Timing{};
  }
  const Columns<MeasuredStack> columns = make_stack_columns();
  Report report;
  report.csv = columns.table({&measured, 1});
  report.json = to_json(predicted);
  report.json["device"] = manifest.gpu;
  report.json.update(columns.json(measured));
  report.text = measured_on(describe(planned.network) + ", " + describe(stack, planned.network), manifest) +
                columns.list(measured);
  output.write(report);
  return measured.is_correct() ? 0 : 1;
}

}  // namespace onchip
