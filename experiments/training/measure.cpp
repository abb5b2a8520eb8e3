// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/measure.hpp"

#include "experiments/measurement/manifest.hpp"
#include "experiments/measurement/timed_baselines.hpp"
#include "experiments/reports/measure_report.hpp"
#include "kernels/baselines/training/training_baselines.hpp"
#include "model/answer/training.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace onchip {
namespace {

// The step itself, once its kernels are there (kernels/training): microseconds of each of `repeats` iterations.
std::vector<double> time_training_step(const Training&, const TrainingStep&, int /*repeats*/) {
  throw InputError("kernels for training are not built yet: with --baselines the libraries are timed");
}

// The quickest of each library.
std::map<std::string, const BaselineResult*> best_of(const std::vector<BaselineResult>& results) {
  std::map<std::string, const BaselineResult*> best;
  for (const BaselineResult& result : results) {
    const BaselineResult*& least = best[result.name.substr(0, result.name.find(' '))];
    if (result.ran && (least == nullptr || result.step_us.median < least->step_us.median)) {
      least = &result;
    }
  }
  return best;
}

Report report_of(const TrainingAnswer& predicted, const std::string& device,
                 const std::vector<BaselineResult>& results) {
  const Recurrent& network = predicted.training.network;
  const Stack& stack = predicted.training.stack;
  const auto best = best_of(results);
  Report report;
  Table table{{"library", "us per step", "low", "high", "best", "note"}, {}};
  report.csv.columns = {"device",  "cell",       "hidden",       "batch",   "steps",   "precision",
                        "layers",  "directions", "input",        "library", "us",      "low_us",
                        "high_us", "samples",    "predicted_us", "best",    "settings"};
  report.json = to_json(predicted);
  report.json["device"] = device;
  report.json["baselines"] = Json::array();
  for (const BaselineResult& result : results) {
    const std::string library = result.name.substr(0, result.name.find(' '));
    const bool is_best = best.at(library) == &result;
    const std::string note = result.ran ? result.note : result.refusal;
    const auto cell = [&](double us) { return result.ran ? significant(us, 6) : std::string(); };
    table.rows.push_back({result.name, result.ran ? fixed(result.step_us.median, 2) : "",
                          result.ran ? fixed(result.step_us.low, 2) : "",
                          result.ran ? fixed(result.step_us.high, 2) : "", is_best ? "yes" : "", note});
    const auto price = std::ranges::find_if(predicted.libraries, [&](const LibraryTraining& of) {
      return of.library.starts_with(library);  // "cublas" of "cublas_graph"
    });
    const double predicted_us = price == predicted.libraries.end() ? 0 : price->us / network.steps;
    report.csv.rows.push_back({device, std::string(info(network.cell).name), std::to_string(network.hidden),
                               std::to_string(network.batch), std::to_string(network.steps),
                               std::string(info(network.precision).name), std::to_string(stack.layers),
                               std::to_string(stack.directions()), std::to_string(stack.columns(network, 0)),
                               result.name, cell(result.step_us.median), cell(result.step_us.low),
                               cell(result.step_us.high), std::to_string(result.step_us.samples),
                               significant(predicted_us, 6), truth(is_best), result.ran ? result.settings : note});
    Json one{{"name", result.name}, {"ran", result.ran}, {"best", is_best}};
    if (result.ran) {
      one["step_us"] = rounded(result.step_us.median);
      one["interval_us"] = {rounded(result.step_us.low), rounded(result.step_us.high)};
      one["samples"] = result.step_us.samples;
      one["settings"] = result.settings;
    } else {
      one["refusal"] = result.refusal;
    }
    report.json["baselines"].push_back(std::move(one));
  }
  report.text = describe(network) + ", " + describe(stack, network) + ", forward and all gradients on " + device +
                "\n\n" + to_aligned(table) +
                "\nmodel, of an own step: " + fixed(predicted.price.us / network.steps, 2) + " us\n";
  for (const LibraryTraining& library : predicted.libraries) {
    report.text += "model, " + std::string(library.library) + ": " + fixed(library.us / network.steps, 2) + " us\n";
  }
  return report;
}

}  // namespace

int measure_training(const ChipFile& chip, const AskedTraining& asked, const MeasureOptions& options, Output& output) {
  constexpr int kWarmUps = 2;
  const Training& training = asked.training;
  const TrainingAnswer predicted = predict_training(chip, training, asked.stash, asked.step);
  if (!options.baselines) {
    time_training_step(training, predicted.step, options.repeats);
  }
  const Manifest manifest = current_manifest();
  warn_of_other_chip(chip.chip, manifest);
  const auto all = [](const BaselineCandidate&) { return true; };
  TimedBaselines baselines(training_baseline_candidates(training.network, training.stack), training.network, {}, all,
                           options.say);
  options.say("measuring " + describe(training.network));
  const Stream stream;
  for (int repeat = -kWarmUps; repeat < options.repeats; ++repeat) {
    baselines.run_each(stream, /*warm_up=*/repeat < 0);
  }
  const std::vector<BaselineResult> results = baselines.results();
  output.write(report_of(predicted, manifest.gpu, results));
  return std::ranges::any_of(results, &BaselineResult::ran) ? 0 : 1;
}

}  // namespace onchip
