// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/measure.hpp"

#include "experiments/measurement/manifest.hpp"
#include "experiments/measurement/timed_baselines.hpp"
#include "experiments/reports/measure_report.hpp"
#include "kernels/baselines/training/training_baselines.hpp"
#include "kernels/training/training_timing.hpp"
#include "model/answer/training/training.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr const char* kOwn = "onchip";

// ---- the step itself ------------------------------------------------------------------------------------------------

// Plans of kernels/training as those that are priced, and back. Their SMs have 16 units each.
DensePlan dense_plan(const RecurrencePlan& plan, const RecurrenceShape& shape) {
  DensePlan dense;
  dense.sms = shape.sms;
  dense.threads = shape.threads;
  dense.loads_in_flight = plan.loads_in_flight;
  dense.poll_delay = plan.poll_delay;
  dense.shared_tiles = plan.shared_tiles;
  dense.batch_groups = plan.batch_groups;
  dense.split = plan.split;
  return dense;
}

RecurrencePlan kernel_plan(const TrainingSize& size, const Phase& phase) {
  const auto& dense = std::get<DensePlan>(std::get<Plan>(phase.how));
  RecurrencePlan plan;
  plan.batch_groups = dense.batch_groups;
  plan.turns = phase.turns;
  plan.warps = dense.warps();
  plan.split = dense.split;
  plan.shared_tiles = dense.shared_tiles;
  plan.loads_in_flight = dense.loads_in_flight;
  plan.poll_delay = dense.poll_delay;
  const int sms = recurrence_shape(size, plan, phase.kind == PhaseKind::backward).sms;
  if (dense.sms != sms) {
    throw InputError("kernels for training have " + std::to_string(plan.units) +
                     " units on each SM: expected sms=" + std::to_string(sms) + ", found " + std::to_string(dense.sms));
  }
  return plan;
}

struct OwnStep {
  BaselineResult result;
  std::optional<LibraryTraining> price;  // of the plans that ran
};

// Throws InputError for what the kernels do not train.
OwnStep time_own_step(const Chip& chip, const AskedTraining& asked, const TrainingAnswer& predicted, int repeats) {
  const Recurrent& network = asked.training.network;
  const Stack& stack = asked.training.stack;
  const bool is_16_bit = network.precision == Precision::fp16 || network.precision == Precision::bf16;
  const bool is_gated = network.cell == Cell::lstm || network.cell == Cell::gru;
  if (!is_gated || !is_16_bit || stack.layers * stack.directions() > 1 || asked.stash != Stash::gates) {
    throw InputError(
        "training is built for one layer and direction of LSTM or GRU in fp16 or bf16 with stash=gates, and else not "
        "built yet: with --baselines the libraries are timed");
  }
  const TrainingSize size{stack.columns(network, 0), network.hidden, network.batch, network.steps, network.cell};
  const DeviceInfo device = device_info();
  TrainingPlan plan;
  if (!asked.step) {
    plan = choose_training_plan(size, device.sm_count, static_cast<std::size_t>(chip.smem_bytes_per_block.value));
  } else {
    if (asked.step->phases.front().kind == PhaseKind::library) {
      throw InputError("this step is a library's: --baselines times it");
    }
    for (const Phase& phase : asked.step->phases) {
      if (phase.kind == PhaseKind::forward || phase.kind == PhaseKind::backward) {
        (phase.kind == PhaseKind::forward ? plan.forward : plan.backward) = kernel_plan(size, phase);
      }
    }
  }
  const TrainingTiming timing = time_training(size, network.precision, plan, repeats);
  OwnStep own;
  own.result.name = kOwn;
  own.result.ran = true;
  own.result.step_us = {timing.graph_us, timing.graph_us, timing.graph_us, repeats};
  own.result.settings = "forward: " + text(timing.plan.forward) + "; backward: " + text(timing.plan.backward) +
                        "; us alone: forward " + fixed(timing.forward_us, 2) + ", backward " +
                        fixed(timing.backward_us, 2) + ", products " + fixed(timing.products_us, 2) + ", other " +
                        fixed(timing.preparation_us, 2) + "; spills " + std::to_string(timing.spill_bytes) + " B";
  own.result.note = own.result.settings;
  TrainingStep step = predicted.step;
  for (Phase& phase : step.phases) {
    const bool is_backward = phase.kind == PhaseKind::backward;
    if (is_backward || phase.kind == PhaseKind::forward) {
      const RecurrencePlan& ran = is_backward ? timing.plan.backward : timing.plan.forward;
      phase.how = Plan(dense_plan(ran, recurrence_shape(size, ran, is_backward)));
      phase.turns = ran.turns;
    }
  }
  try {
    check(asked.training, step);
    const TrainingPrice of_step = price(chip, asked.training, step);
    own.price = {kOwn, "the plans that ran", of_step.us, of_step.low_us, of_step.high_us};
  } catch (const InputError&) {  // samples that no batch groups share evenly have no price
  }
  return own;
}

// ---- beside libraries -----------------------------------------------------------------------------------------------

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
    const bool is_best = best.contains(library) && best.at(library) == &result;
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
                "\nmodel, of its own pick: " + fixed(predicted.price.us / network.steps, 2) + " us\n";
  for (const LibraryTraining& library : predicted.libraries) {
    report.text += "model, " + std::string(library.library) + ": " + fixed(library.us / network.steps, 2) + " us\n";
  }
  return report;
}

std::vector<BaselineResult> time_libraries(const Training& training, const MeasureOptions& options) {
  constexpr int kWarmUps = 2;
  const auto all = [](const BaselineCandidate&) { return true; };
  TimedBaselines baselines(training_baseline_candidates(training.network, training.stack), training.network, {}, all,
                           options.say);
  options.say("measuring " + describe(training.network));
  const Stream stream;
  for (int repeat = -kWarmUps; repeat < options.repeats; ++repeat) {
    baselines.run_each(stream, /*warm_up=*/repeat < 0);
  }
  return baselines.results();
}

}  // namespace

int measure_training(const ChipFile& chip, const AskedTraining& asked, const MeasureOptions& options, Output& output) {
  const Training& training = asked.training;
  TrainingAnswer predicted = predict_training(chip, training, asked.stash, asked.step);
  const Manifest manifest = current_manifest();
  warn_of_other_chip(chip.chip, manifest);
  std::vector<BaselineResult> results;
  options.say("measuring " + describe(training.network));
  try {
    OwnStep own = time_own_step(chip.chip, asked, predicted, options.repeats);
    results.push_back(std::move(own.result));
    if (own.price) {
      predicted.libraries.push_back(*own.price);
    }
  } catch (const std::exception& error) {  // a refusal, or a failure of the device, beside libraries is a row
    if (!options.baselines) {
      throw;
    }
    results.emplace_back().name = kOwn;
    results.back().refusal = error.what();
  }
  if (options.baselines) {
    std::ranges::move(time_libraries(training, options), std::back_inserter(results));
  }
  output.write(report_of(predicted, manifest.gpu, results));
  return std::ranges::any_of(results, &BaselineResult::ran) ? 0 : 1;
}

}  // namespace onchip
