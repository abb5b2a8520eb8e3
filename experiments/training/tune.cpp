// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/tune.hpp"

#include "experiments/measurement/measured_rows.hpp"
#include "experiments/training/measure.hpp"
#include "kernels/baselines/training_baselines.hpp"
#include "kernels/training/training_timing.hpp"
#include "kernels/training/tuned_plans.hpp"
#include "model/base/error.hpp"
#include "model/training/planner.hpp"
#include "model/training/price.hpp"

#include <algorithm>
#include <cstddef>
#include <future>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr std::size_t kMostPlans = 3;  // beside cuDNN

// A plan that is timed, or cuDNN.
struct Timed {
  TrainingPlan plan;
  double predicted_us = 0;
  Way way = {};
};

struct TunedLayer {
  AskedTraining asked;
  std::optional<TrainingPlan> remembered = {};
  std::vector<OwnProgram> programs = {};
  std::string why_none = {};  // there are no programs
};

Stash stash_of(const AskedTraining& asked) {
  return asked.constraints.stash.value_or(Stash::gates);
}

// All that needs no GPU but its name.
TunedLayer prepare_layer(const Chip& chip, AskedTraining asked, const DeviceInfo& device, bool again) {
  TunedLayer layer{std::move(asked)};
  const Training& training = layer.asked.training;
  if (training.mask || training.stack.layers > 1) {
    throw InputError("what is tuned is a dense layer; the layers of a network are rows of their own");
  }
  const Stash stash = stash_of(layer.asked);
  if (!again) {
    layer.remembered = tuned_plan(device, size_of(training), training.network.precision, stash);
  }
  if (layer.remembered) {
    return layer;
  }
  const auto plans = rank_on_chip(chip, training, stash, kMostPlans);
  if (!plans) {
    layer.why_none = plans.why();
    return layer;
  }
  std::vector<std::future<OwnProgram>> programs;
  for (const TrainingPlan& plan : *plans) {
    AskedTraining of_plan = layer.asked;
    of_plan.constraints.plan = plan;
    programs.push_back(std::async(std::launch::async, [&chip, &device, of = std::move(of_plan)] {
      OwnProgram program = own_program(chip, of, device.architecture);
      for (const ProgramKernel& kernel : program.program.program.kernels) {
        compile(kernel.request);
      }
      return program;
    }));
  }
  for (std::future<OwnProgram>& program : programs) {
    layer.programs.push_back(program.get());
  }
  return layer;
}

std::vector<Timed> time_layer(const Chip& chip, const TunedLayer& layer, const MeasureOptions& options) {
  const Training& training = layer.asked.training;
  const Recurrent& network = training.network;
  const auto price = [&](const TrainingPlan& plan) { return predict(chip, training, plan).step_us; };
  std::vector<Timed> timed;
  std::vector<Way> ways;
  for (const OwnProgram& own : layer.programs) {
    timed.push_back({own.program.plan, price(own.program.plan)});
    try {
      ways.push_back(training.stack.bidirectional
                         ? stack_way(chip, training, own.program.plan)
                         : training_ways(own.program, size_of(training), network.precision).graph);
    } catch (const std::exception& error) {
      ways.push_back({.name = "onchip", .failure = error.what()});
    }
  }
  const std::size_t own = ways.size();
  // Torch's path pads nothing.
  std::vector<BaselineCandidate> libraries = cudnn_training_candidates(network, training.stack);
  std::erase_if(libraries, [shape = shape_name(network, network.hidden, network.batch)](const BaselineCandidate& of) {
    return !of.name.ends_with(shape + " graph");
  });
  std::ranges::move(baseline_ways(libraries, network, {}, options.say), std::back_inserter(ways));
  options.say("tuning " + describe(network));
  time_ways(ways, options.timing);
  for (std::size_t i = 0; i < own; ++i) {
    timed[i].way = std::move(ways[i]);
  }
  const auto library = std::ranges::find_if(ways.begin() + static_cast<std::ptrdiff_t>(own), ways.end(),
                                            [&](const Way& way) { return is_fastest_of_library(ways, way); });
  if (library != ways.end()) {
    timed.push_back({CudnnTrainingPlan{}, price(CudnnTrainingPlan{}), std::move(*library)});
  }
  return timed;
}

// A plan of it, in the model's order, cuDNN last; or the one that is remembered, without a time.
struct TunedRow {
  const TunedLayer& layer;
  Timed timed;
  std::string rank;
  bool is_chosen = false;
};

Columns<TunedRow> make_columns() {
  using Row = TunedRow;
  Columns<Row> columns;
  const auto of_layer = [&](const char* name, const char* help, auto get) {
    columns.add(name, "", help, [get](const Row& row) { return get(row.layer.asked.training); });
  };
  of_layer("cell", "as the option", [](const Training& of) { return info(of.network.cell).name; });
  of_layer("hidden", "units of the hidden state", [](const Training& of) { return of.network.hidden; });
  of_layer("batch", "samples at once", [](const Training& of) { return of.network.batch; });
  of_layer("steps", "of the sequence", [](const Training& of) { return of.network.steps; });
  of_layer("precision", "of weights and state", [](const Training& of) { return info(of.network.precision).name; });
  of_layer("directions", "of the layer", [](const Training& of) { return of.stack.directions(); });
  of_layer("input", "features of the input", [](const Training& of) { return of.stack.columns(of.network, 0); });
  columns.add("rank", "", "of the plan, by its price; cuDNN's algorithm; `remembered`", &Row::rank);
  columns.add_time(
      "us", "us", "an iteration, forward and all gradients, / steps", [](const Row& row) { return row.timed.way.time; },
      "step_us", "low_us", "high_us");
  columns.add("predicted_us", "us", "predicted for a step of it",
              [](const Row& row) { return row.timed.predicted_us; });
  columns.add("chosen", "", "the fastest, which runs from now on", &Row::is_chosen);
  columns.add("plan", "", "of both passes", [](const Row& row) { return to_string(row.timed.plan); });
  columns.add("refusal", "", "why it has no time", [](const Row& row) { return row.timed.way.failure; });
  return columns;
}

// Throws DoesNotFit where nothing ran.
std::vector<TunedRow> tune_layer(const Chip& chip, const TunedLayer& layer, const DeviceInfo& device,
                                 const MeasureOptions& options) {
  const Training& training = layer.asked.training;
  if (layer.remembered) {
    const double us = predict(chip, training, *layer.remembered).step_us;
    return {{layer, {*layer.remembered, us}, "remembered", true}};
  }
  std::vector<TunedRow> rows;
  for (Timed& one : time_layer(chip, layer, options)) {
    const std::string rank = is_on_chip(one.plan) ? std::to_string(rows.size() + 1) : one.way.name;
    rows.push_back({layer, std::move(one), rank});
  }
  const auto best = std::ranges::min_element(rows, {}, [](const TunedRow& row) {
    return row.timed.way.ran() ? row.timed.way.time.median : std::numeric_limits<double>::infinity();
  });
  if (best == rows.end() || !best->timed.way.ran()) {
    throw DoesNotFit(rows.empty() ? layer.why_none : rows.front().timed.way.failure);
  }
  best->is_chosen = true;
  remember_plan(device, size_of(training), training.network.precision, stash_of(layer.asked), best->timed.plan);
  return rows;
}

}  // namespace

ColumnGroup tuning_columns() {
  return make_columns().group("tuning");
}

int tune_training(const Options& options, const ChipFile& chip, const std::optional<AskedTraining>& one, bool again,
                  const MeasureOptions& measure_options) {
  Output output(options);
  const DeviceInfo device = device_info();
  const Columns<TunedRow> columns = make_columns();
  if (!one) {
    const CsvReader file(options.text("configurations"));
    return measure_rows(
        file.file(), file.size(), columns.table({}).columns, output,
        [&](std::size_t i) { return prepare_layer(chip.chip, read_training_row(file, i), device, again); },
        [&](std::size_t, std::future<TunedLayer> prepared) {
          const TunedLayer layer = prepared.get();
          RowsMeasured rows;
          for (const TunedRow& row : tune_layer(chip.chip, layer, device, measure_options)) {
            rows.cells.push_back(columns.cells(row));
          }
          return rows;
        });
  }
  const TunedLayer layer = prepare_layer(chip.chip, *one, device, again);
  const std::vector<TunedRow> rows = tune_layer(chip.chip, layer, device, measure_options);
  Report report;
  report.csv = columns.table(rows);
  report.json = Json::array();
  for (const TunedRow& row : rows) {
    report.json.push_back(columns.json(row));
  }
  report.text = to_aligned(
      columns.table(rows, {"rank", "us", "low_us", "high_us", "samples", "predicted_us", "chosen", "plan", "refusal"}));
  output.write(report);
  return 0;
}

}  // namespace onchip
