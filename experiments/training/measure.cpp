// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/measure.hpp"

#include "experiments/measurement/manifest.hpp"
#include "experiments/measurement/timed_baselines.hpp"
#include "experiments/reports/measure_report.hpp"
#include "experiments/training/own_step.hpp"
#include "kernels/baselines/training/training_baselines.hpp"
#include "kernels/runtime/compiler.hpp"
#include "model/answer/training/training.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <future>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

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

// One network's step, timed.
struct MeasuredStep {
  AskedTraining asked;
  TrainingAnswer predicted;
  std::vector<BaselineResult> results;
  std::optional<OwnStep> own;  // of the first result

  // What the model says of an iteration of the plan that ran, or of a library's; "cublas" of "cublas_graph".
  const PhasePrice* price_of(const std::string& library) const {
    const auto of = std::ranges::find_if(predicted.ranking, [&](const RankedTraining& one) {
      return one.is_library() && one.library().starts_with(library);
    });
    return library == kOwn ? (own ? &own->price : nullptr) : of == predicted.ranking.end() ? nullptr : &of->iteration;
  }
};

// What the model's pick stands for: our kernels, or the quickest of the library.
bool is_picked(const MeasuredStep& step, const std::map<std::string, const BaselineResult*>& best,
               const BaselineResult& result) {
  const bool is_library = !is_on_chip(step.predicted.planned->plan);
  const auto cudnn = best.find("cudnn");
  return is_library ? cudnn != best.end() && cudnn->second == &result : &result == step.results.data();
}

Table rows_of(const MeasuredStep& step, const std::string& device) {
  const Recurrent& network = step.predicted.training.network;
  const Stack& stack = step.predicted.training.stack;
  const auto best = best_of(step.results);
  Table table;
  for (const BaselineResult& result : step.results) {
    const std::string library = result.name.substr(0, result.name.find(' '));
    const PhasePrice* const price = step.price_of(library);
    const bool is_own = step.own && &result == step.results.data();
    const auto us = [&](double value) { return result.ran ? significant(value, 6) : std::string(); };
    const auto part = [&](Timing TrainingTiming::*of) {
      return is_own ? significant((step.own->timing.*of).median, 6) : std::string();
    };
    const auto word = [&](auto&& of) { return is_own ? of(*step.own) : std::string(); };
    const std::vector<std::pair<std::string, std::string>> cells{
        {"device", device},
        {"cell", std::string(info(network.cell).name)},
        {"hidden", std::to_string(network.hidden)},
        {"batch", std::to_string(network.batch)},
        {"steps", std::to_string(network.steps)},
        {"precision", std::string(info(network.precision).name)},
        {"density", format_number(network.density)},
        {"mask", step.asked.mask},
        {"seed", std::to_string(step.asked.seed)},
        {"layers", std::to_string(stack.layers)},
        {"directions", std::to_string(stack.directions())},
        {"input", std::to_string(stack.columns(network, 0))},
        {"library", result.name},
        {"us", us(result.step_us.median)},
        {"low_us", us(result.step_us.low)},
        {"high_us", us(result.step_us.high)},
        {"samples", std::to_string(result.step_us.samples)},
        {"predicted_us", price == nullptr ? "" : significant(price->us / network.steps, 6)},
        {"best", truth(best.contains(library) && best.at(library) == &result)},
        {"pick", truth(is_picked(step, best, result))},
        {"forward_us", part(&TrainingTiming::forward)},
        {"backward_us", part(&TrainingTiming::backward)},
        {"products_us", part(&TrainingTiming::products)},
        {"other_us", part(&TrainingTiming::other)},
        {"spill_bytes", word([](const OwnStep& of) { return std::to_string(of.timing.spill_bytes); })},
        {"plan_forward", word([](const OwnStep& of) { return pass_text(of.plan, false); })},
        {"plan_backward", word([](const OwnStep& of) { return pass_text(of.plan, true); })},
        {"refused_plan", word([](const OwnStep& of) { return of.refused ? to_string(*of.refused) : std::string(); })},
        {"forward_code", word([](const OwnStep& of) { return of.timing.forward_code; })},
        {"backward_code", word([](const OwnStep& of) { return of.timing.backward_code; })},
        {"settings", result.ran ? result.settings : result.refusal}};
    std::vector<std::string>& row = table.rows.emplace_back();
    table.columns.clear();
    for (const auto& [column, cell] : cells) {
      table.columns.push_back(column);
      row.push_back(cell);
    }
  }
  return table;
}

Report report_of(const MeasuredStep& step, const std::string& device) {
  const TrainingAnswer& predicted = step.predicted;
  const Recurrent& network = predicted.training.network;
  const auto best = best_of(step.results);
  Report report;
  Table table{{"library", "us per step", "low", "high", "best", "note"}, {}};
  report.csv = rows_of(step, device);
  report.json = to_json(predicted);
  report.json["device"] = device;
  report.json["baselines"] = Json::array();
  for (const BaselineResult& result : step.results) {
    const std::string library = result.name.substr(0, result.name.find(' '));
    const bool is_best = best.contains(library) && best.at(library) == &result;
    table.rows.push_back({result.name, result.ran ? fixed(result.step_us.median, 2) : "",
                          result.ran ? fixed(result.step_us.low, 2) : "",
                          result.ran ? fixed(result.step_us.high, 2) : "", is_best ? "yes" : "",
                          result.ran ? result.note : result.refusal});
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
  report.text = describe(network) + ", " + describe(predicted.training.stack, network) +
                ", forward and all gradients on " + device + "\n\n" + to_aligned(table) + "\nmodel, of its pick, " +
                (is_on_chip(predicted.planned->plan) ? kOwn : "cudnn") + ": " +
                fixed(predicted.planned->prediction.step_us, 2) + " us\n";
  for (const RankedTraining& one : predicted.ranking) {
    if (one.is_library()) {
      report.text +=
          "model, " + std::string(one.library()) + ": " + fixed(one.iteration.us / network.steps, 2) + " us\n";
    }
  }
  if (step.own) {
    report.text += std::string("model, ") + kOwn + ": " + fixed(step.own->price.us / network.steps, 2) + " us\n";
    if (step.own->refused) {
      report.json["refused_plan"] = to_string(*step.own->refused);
    }
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

// All that needs no GPU.
struct PreparedStep {
  AskedTraining asked;
  std::optional<OwnProgram> program;  // or why there is none
  std::exception_ptr problem;
};

PreparedStep prepare_step(const Chip& chip, AskedTraining asked, const std::string& architecture) {
  PreparedStep prepared{std::move(asked), {}, {}};
  try {
    prepared.program = own_program(chip, prepared.asked, architecture);
  } catch (const std::exception&) {
    prepared.problem = std::current_exception();
  }
  return prepared;
}

MeasuredStep measure_step(const ChipFile& chip, const PreparedStep& prepared, const MeasureOptions& options) {
  const AskedTraining& asked = prepared.asked;
  MeasuredStep step{asked, predict_training(chip, asked.training, asked.constraints), {}, {}};
  options.say("measuring " + describe(asked.training.network));
  try {
    if (prepared.problem) {
      std::rethrow_exception(prepared.problem);
    }
    step.own = time_own_step(chip.chip, asked, *prepared.program, options.repeats);
    step.results.push_back(step.own->result);
  } catch (const std::exception& error) {  // a refusal, or a failure of the device, beside libraries is a row
    if (!options.baselines) {
      throw;
    }
    step.results.emplace_back().name = kOwn;
    step.results.back().refusal = error.what();
  }
  if (options.baselines) {
    std::ranges::move(time_libraries(asked.training, options), std::back_inserter(step.results));
  }
  return step;
}

int measure_one(const ChipFile& chip, const AskedTraining& asked, const MeasureOptions& options, Output& output) {
  const Manifest manifest = current_manifest();
  warn_of_other_chip(chip.chip, manifest);
  const MeasuredStep step = measure_step(chip, prepare_step(chip.chip, asked, manifest.architecture), options);
  output.write(report_of(step, manifest.gpu));
  return std::ranges::any_of(step.results, &BaselineResult::ran) ? 0 : 1;
}

// Every row of a file, as CSV, with a manifest beside the file of -o.
int measure_file(const ChipFile& chip, const CsvReader& file, const MeasureOptions& options, Output& output) {
  const Manifest manifest = current_manifest();
  warn_of_other_chip(chip.chip, manifest);
  // Some rows are prepared while another is measured.
  const auto ahead = static_cast<std::size_t>(all_cores());
  std::vector<std::future<PreparedStep>> prepared(file.size());
  const auto begin_row = [&](std::size_t i) {
    if (i < file.size()) {
      prepared[i] = std::async(std::launch::async, [&, i] {
        return prepare_step(chip.chip, read_training_row(file, i), manifest.architecture);
      });
    }
  };
  for (std::size_t i = 0; i < ahead; ++i) {
    begin_row(i);
  }
  std::size_t failed = 0;
  for (std::size_t i = 0; i < file.size(); ++i) {
    Table rows;
    begin_row(i + ahead);
    try {
      rows = rows_of(measure_step(chip, prepared[i].get(), options), manifest.gpu);
    } catch (const std::exception& error) {
      ++failed;
      std::cerr << file.file() << ": row " << i + 1 << ": " << error.what() << '\n';
      continue;
    }
    if (i == failed) {
      output.append(csv_line(rows.columns));
    }
    std::ranges::for_each(rows.rows, [&](const auto& row) { output.append(csv_line(row)); });
  }
  output.finish();
  if (!output.path().empty()) {
    OutputFile manifest_file(manifest_path(output.path()));
    manifest_file.write(to_json_text(manifest));
    manifest_file.commit();
  }
  return failed == 0 ? 0 : 1;
}

// Compiles the plans' kernels without a GPU, on all cores, and reports registers and spills.
int compile_all_of(const ChipFile& chip, int count, const std::function<AskedTraining(int)>& asked_of,
                   const std::string& architecture, Output& output) {
  struct Compiled {
    Recurrent network;
    std::vector<CompileRequest> recurrences;  // forward and backward
    TrainingPlan plan;
    std::optional<TrainingPlan> refused;
    std::string problem;
  };
  std::vector<Compiled> compiled(static_cast<std::size_t>(count));
  parallel_for(count, all_cores(), [&](int i) {
    Compiled& one = compiled[static_cast<std::size_t>(i)];
    try {
      const AskedTraining asked = asked_of(i);
      one.network = asked.training.network;
      const OwnProgram own = own_program(chip.chip, asked, architecture);
      one.plan = own.program.plan;
      one.refused = own.refused;
      for (const ProgramKernel& kernel : own.program.program.kernels) {
        if (compile(kernel.request); kernel.entry == "recurrence") {
          one.recurrences.push_back(kernel.request);
        }
      }
    } catch (const std::exception& error) {
      one.problem = error.what();
    }
  });
  Report report;
  report.csv.columns = {"hidden",           "batch", "precision",    "density", "pass", "registers", "spill_bytes",
                        "code_fingerprint", "plan",  "refused_plan", "problem"};
  bool spills = false;
  for (const Compiled& one : compiled) {
    const std::vector<std::string> of_network{std::to_string(one.network.hidden), std::to_string(one.network.batch),
                                              std::string(info(one.network.precision).name),
                                              format_number(one.network.density)};
    const auto add = [&](const std::vector<std::string>& cells) {
      std::vector<std::string>& row = report.csv.rows.emplace_back(of_network);
      row.insert(row.end(), cells.begin(), cells.end());
    };
    if (!one.problem.empty()) {
      spills = true;
      add({"", "", "", "", "", "", one.problem});
      continue;
    }
    for (const bool is_backward : {false, true}) {
      const CompiledKernel of = compile(one.recurrences[is_backward ? 1 : 0]);
      spills = spills || of.resources.spills();
      add({is_backward ? "backward" : "forward", std::to_string(of.resources.registers),
           std::to_string(of.resources.spill_bytes), of.code_fingerprint, pass_text(one.plan, is_backward),
           one.refused ? pass_text(*one.refused, is_backward) : "", ""});
    }
  }
  report.text = to_aligned(report.csv);
  report.json = {{"chip", chip.chip.name}, {"architecture", architecture}, {"kernels", Json::array()}};
  for (const std::vector<std::string>& row : report.csv.rows) {
    Json& one = report.json["kernels"].emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      one[report.csv.columns[i]] = row[i];
    }
  }
  output.write(report);
  return spills ? 1 : 0;
}

}  // namespace

int measure_training(const Options& options, const ChipFile& chip, std::optional<AskedTraining> one,
                     const MeasureOptions& measure_options) {
  Output output(options);
  if (one) {
    one->constraints.fields = {options.text("plan-forward"), options.text("plan-backward")};
  }
  const auto file = one ? std::nullopt : std::optional<CsvReader>(options.text("configurations"));
  if (!options.flag("compile-only")) {
    if (file && options.given("format") && output.format() != Format::csv) {
      throw InputError("--configurations writes CSV: leave --format out");
    }
    return one ? measure_one(chip, *one, measure_options, output) : measure_file(chip, *file, measure_options, output);
  }
  const auto asked_of = [&](int i) { return one ? *one : read_training_row(*file, static_cast<std::size_t>(i)); };
  return compile_all_of(chip, one ? 1 : static_cast<int>(file->size()), asked_of,
                        options.given("arch") ? options.text("arch") : chip.chip.architecture, output);
}

}  // namespace onchip
