// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/tune.hpp"

#include "experiments/measurement/measured_rows.hpp"
#include "experiments/training/measure.hpp"
#include "kernels/baselines/training_baselines.hpp"
#include "kernels/training/training_timing.hpp"
#include "kernels/training/tuned_plans.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/base/units.hpp"
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
  if (training.mask || training.stack.layers * training.stack.directions() > 1) {
    throw InputError("what is tuned is a dense layer of one direction; the layers of a network are rows of their own");
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
  const auto price = [&](const TrainingPlan& plan) {
    return predict(chip, training, plan).iteration.us / network.steps;
  };
  std::vector<Timed> timed;
  std::vector<Way> ways;
  for (const OwnProgram& own : layer.programs) {
    timed.push_back({own.program.plan, price(own.program.plan)});
    try {
      ways.push_back(training_ways(own.program, size_of(training), network.precision).graph);
    } catch (const std::exception& error) {
      ways.push_back({.name = "onchip", .failure = error.what()});
    }
  }
  const std::size_t own = ways.size();
  std::ranges::move(baseline_ways(cudnn_training_candidates(network, training.stack), network, {}, options.say),
                    std::back_inserter(ways));
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

const std::vector<std::string> kColumns{"cell",    "hidden",       "batch",  "steps",  "precision",
                                        "input",   "rank",         "us",     "low_us", "high_us",
                                        "samples", "predicted_us", "chosen", "plan",   "settings"};

// A row for each plan that is timed, in the model's order, cuDNN last; of a layer that is remembered one, without
// times.
RowsMeasured tune_layer(const Chip& chip, const TunedLayer& layer, const DeviceInfo& device,
                        const MeasureOptions& options) {
  const Training& training = layer.asked.training;
  const Recurrent& network = training.network;
  RowsMeasured rows;
  const auto add = [&](const std::string& rank, const Timing& time, double predicted_us, bool is_chosen,
                       const TrainingPlan& plan, const std::string& settings) {
    const auto number = [&](double us) { return time.samples > 0 ? significant(us, 6) : std::string(); };
    rows.cells.push_back({std::string(info(network.cell).name), std::to_string(network.hidden),
                          std::to_string(network.batch), std::to_string(network.steps),
                          std::string(info(network.precision).name), std::to_string(training.stack.columns(network, 0)),
                          rank, number(time.median), number(time.low), number(time.high), std::to_string(time.samples),
                          significant(predicted_us, 6), is_chosen ? "true" : "false", to_string(plan), settings});
  };
  if (layer.remembered) {
    add("remembered", {}, predict(chip, training, *layer.remembered).iteration.us / network.steps, true,
        *layer.remembered, "");
    return rows;
  }
  const std::vector<Timed> timed = time_layer(chip, layer, options);
  const auto us = [](const Timed& one) {
    return one.way.ran() ? one.way.time.median : std::numeric_limits<double>::infinity();
  };
  const auto best = std::ranges::min_element(timed, {}, us);
  if (best == timed.end() || !best->way.ran()) {
    throw DoesNotFit(timed.empty() ? layer.why_none : timed.front().way.failure);
  }
  remember_plan(device, size_of(training), network.precision, stash_of(layer.asked), best->plan);
  for (const Timed& one : timed) {
    const bool is_own = is_on_chip(one.plan);
    add(is_own ? std::to_string(&one - timed.data() + 1) : one.way.name, one.way.time, one.predicted_us, &one == &*best,
        one.plan, one.way.ran() ? (is_own ? "" : one.way.settings) : one.way.failure);
  }
  return rows;
}

}  // namespace

int tune_training(const Options& options, const ChipFile& chip, const std::optional<AskedTraining>& one, bool again,
                  const MeasureOptions& measure_options) {
  Output output(options);
  const DeviceInfo device = device_info();
  if (!one) {
    const CsvReader file(options.text("configurations"));
    return measure_rows(
        file.file(), file.size(), kColumns, output,
        [&](std::size_t i) { return prepare_layer(chip.chip, read_training_row(file, i), device, again); },
        [&](std::size_t, std::future<TunedLayer> layer) {
          return tune_layer(chip.chip, layer.get(), device, measure_options);
        });
  }
  const RowsMeasured rows =
      tune_layer(chip.chip, prepare_layer(chip.chip, *one, device, again), device, measure_options);
  Report report;
  report.csv = {.columns = kColumns, .rows = rows.cells};
  report.json = Json::array();
  for (const std::vector<std::string>& row : rows.cells) {
    Json& of_row = report.json.emplace_back();
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      of_row[kColumns[i]] = row[i];
    }
  }
  report.text = to_aligned(report.csv);
  output.write(report);
  return 0;
}

}  // namespace onchip
