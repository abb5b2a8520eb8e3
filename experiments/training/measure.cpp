// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/measure.hpp"

#include "experiments/measurement/manifest.hpp"
#include "experiments/measurement/measured_rows.hpp"
#include "experiments/training/answers.hpp"
#include "kernels/api/confirmed_plan.hpp"
#include "kernels/baselines/training_baselines.hpp"
#include "kernels/runtime/compiler.hpp"
#include "kernels/training/sparse_program.hpp"
#include "kernels/training/training_timing.hpp"
#include "model/answer/training/training.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/base/units.hpp"
#include "model/training/price.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

// ---- a step by our own kernels: which plans run, and what they take -------------------------------------------------

constexpr const char* kOwn = "onchip";

struct OwnStep {
  TrainingWays ways;
  TrainingPlan plan;  // that runs
  std::optional<TrainingPlan> refused;
  PhasePrice price;  // of that plan, of an iteration
};

void refuse_what_is_not_built(const AskedTraining& asked) {
  const Recurrent& network = asked.training.network;
  const bool is_16_bit = network.precision == Precision::fp16 || network.precision == Precision::bf16;
  const bool is_gated = network.cell == Cell::lstm || network.cell == Cell::gru;
  if (!is_gated || !is_16_bit) {
    throw InputError(
        "training is measured for LSTM and GRU in fp16 or bf16, which have kernels: with --baselines the libraries are "
        "timed");
  }
  if (asked.constraints.plan && !is_on_chip(*asked.constraints.plan)) {
    throw InputError("this plan is a library's: --baselines times it");
  }
}

}  // namespace

OwnProgram own_program(const Chip& chip, const AskedTraining& asked, const std::string& architecture) {
  refuse_what_is_not_built(asked);
  const Training& training = asked.training;
  const TrainingSize size = size_of(training);
  const Precision precision = training.network.precision;
  const SparseMatrix* const mask = training.mask.get();
  const TrainingPlan chosen = plan_training_on_chip(chip, training, asked.constraints).value_or_throw().plan;
  const Confirmed<TrainingPlan> plan = confirmed_plan(chip, size, precision, mask, chosen, architecture);
  return {training_program(size, precision, plan.chosen, mask, chip, architecture), plan.refused};
}

namespace {

// Onto the current device, to be timed. Throws CudaError.
OwnStep load_own_step(const Chip& chip, const AskedTraining& asked, const OwnProgram& made) {
  const Stack& stack = asked.training.stack;
  return {.ways = stack.layers * stack.directions() > 1
                      ? TrainingWays{.graph = stack_way(chip, asked.training, made.program.plan), .parts = {}}
                      : training_ways(made.program, size_of(asked.training), asked.training.network.precision),
          .plan = made.program.plan,
          .refused = made.refused,
          .price = predict(chip, asked.training, made.program.plan).iteration};
}

// ---- beside libraries -----------------------------------------------------------------------------------------------

// One network's step, timed: ours, and libraries.
struct MeasuredStep {
  AskedTraining asked;
  std::string device;
  TrainingAnswer predicted;
  std::vector<Way> ways;       // us of a step
  std::optional<OwnStep> own;  // of the first way
};

// A way of it.
struct MeasuredStepWay {
  const MeasuredStep& step;
  const Way& way;

  bool is_own() const { return step.own && &way == step.ways.data(); }
  bool is_best() const { return is_fastest_of_library(step.ways, way); }
  // What the model's choice stands for: our kernels, or the fastest of the library.
  bool is_chosen() const {
    return is_on_chip(step.predicted.planned->plan) ? &way == step.ways.data() : is_best() && way.library == "cudnn";
  }
  std::optional<double> predicted_us() const {
    const std::string library = way.name.substr(0, way.name.find(' '));
    const auto price = std::ranges::find_if(step.predicted.ranking, [&](const RankedTraining& of) {
      return of.is_library() && of.library().starts_with(library);  // "cublas" of "cublas_graph"
    });
    const int steps = step.asked.training.network.steps;
    if (library == kOwn) {
      return step.own ? std::optional(step.own->price.us / steps) : std::nullopt;
    }
    return price == step.predicted.ranking.end() ? std::nullopt : std::optional(price->iteration.us / steps);
  }
};

Columns<MeasuredStepWay> make_training_columns() {
  using Row = MeasuredStepWay;
  Columns<Row> columns;
  const auto of_network = [&](const char* name, const char* help, auto get) {
    const auto of_row = [get](const Row& row) { return get(row.step.predicted.training); };
    columns.add(name, "", help, of_row, "", In::csv);
  };
  const auto of_way = [](auto get) { return [get](const Row& row) { return to_value(std::invoke(get, row.way)); }; };
  const auto if_own = [](auto get) {
    return [get](const Row& row) { return row.is_own() ? to_value(get(*row.step.own)) : ColumnValue(); };
  };
  const auto part = [&](const char* name, const char* help, TrainingPart which) {
    columns.add(name, "us", help, if_own([which](const OwnStep& own) {
                  const auto place = static_cast<std::size_t>(which);
                  return own.ways.parts.ran() ? ColumnValue(own.ways.parts.parts[place].median) : ColumnValue();
                }));
  };
  const auto code = [&](const char* name, const char* help, TrainingPart which) {
    columns.add(name, "", help,
                if_own([which](const OwnStep& own) { return own.ways.codes[static_cast<std::size_t>(which)]; }));
  };
  columns.add(
      "device", "", "the GPU", [](const Row& row) { return row.step.device; }, "", In::csv);
  of_network("cell", "as the option", [](const Training& of) { return info(of.network.cell).name; });
  of_network("hidden", "units of the hidden state", [](const Training& of) { return of.network.hidden; });
  of_network("batch", "samples at once", [](const Training& of) { return of.network.batch; });
  of_network("steps", "of the sequence", [](const Training& of) { return of.network.steps; });
  of_network("precision", "of weights and state", [](const Training& of) { return info(of.network.precision).name; });
  of_network("density", "share of the recurrent weights that are not zero",
             [](const Training& of) { return format_number(of.network.density); });
  columns.add(
      "mask", "", "of generated weights", [](const Row& row) { return row.step.asked.mask; }, "", In::csv);
  columns.add(
      "seed", "", "that they were generated with", [](const Row& row) { return row.step.asked.seed; }, "", In::csv);
  of_network("layers", "stacked", [](const Training& of) { return of.stack.layers; });
  of_network("directions", "1, or 2 of a bidirectional network",
             [](const Training& of) { return of.stack.directions(); });
  of_network("input", "features of the first layer's input",
             [](const Training& of) { return of.stack.columns(of.network, 0); });
  columns.add("library", "", "`onchip`, or the library and its call", of_way(&Way::name), "name");
  columns.add_to_json("ran", "whether it has a time", of_way(&Way::ran));
  columns.add_time(
      "us", "us", "an iteration, forward and all gradients, / steps", [](const Row& row) { return row.way.time; },
      "step_us", "low_us", "high_us");
  columns.add("predicted_us", "us", "predicted for a step of it; of ours by the plans that ran", &Row::predicted_us);
  columns.add("best", "", "the fastest of its library", &Row::is_best);
  columns.add("pick", "", "predicted to be the fastest", &Row::is_chosen);
  part("forward_us", "the forward recurrence alone", TrainingPart::forward);
  part("backward_us", "the backward recurrence alone", TrainingPart::backward);
  part("products_us", "the products over all steps, each alone", TrainingPart::products);
  part("other_us", "all else, each alone", TrainingPart::other);
  columns.add("spill_bytes", "", "of all kernels", if_own([](const OwnStep& own) { return own.ways.spill_bytes; }));
  columns.add("plan_forward", "", "of the forward recurrence",
              if_own([](const OwnStep& own) { return pass_text(own.plan, false); }));
  columns.add("plan_backward", "", "of the backward recurrence",
              if_own([](const OwnStep& own) { return pass_text(own.plan, true); }));
  columns.add("refused_plan", "", "the model's choice, which the compiler spills",
              if_own([](const OwnStep& own) { return own.refused ? to_string(*own.refused) : std::string(); }));
  code("forward_code", "fingerprint of the forward recurrence's machine code", TrainingPart::forward);
  code("backward_code", "fingerprint of the backward recurrence's", TrainingPart::backward);
  columns.add("settings", "", "what it computes, and how; of what has no time why",
              [](const Row& row) { return row.way.ran() ? row.way.settings : row.way.failure; });
  columns.add_to_json("preparation_s", "seconds to prepare it, or to find that it refuses",
                      of_way(&Way::preparation_s));
  columns.add("note", "", "why it has few samples", of_way(&Way::note));
  columns.add("refusal", "", "why it has no time", of_way(&Way::failure));
  return columns;
}

std::vector<MeasuredStepWay> ways_of(const MeasuredStep& step) {
  std::vector<MeasuredStepWay> rows;
  for (const Way& way : step.ways) {
    rows.push_back({step, way});
  }
  return rows;
}

Report report_of(const MeasuredStep& step) {
  const TrainingAnswer& predicted = step.predicted;
  const Recurrent& network = predicted.training.network;
  const Columns<MeasuredStepWay> columns = make_training_columns();
  const std::vector<MeasuredStepWay> ways = ways_of(step);
  Report report;
  report.csv = columns.table(ways);
  report.json = to_json(predicted);
  report.json["device"] = step.device;
  report.json["baselines"] = Json::array();
  for (const MeasuredStepWay& way : ways) {
    report.json["baselines"].push_back(columns.json(way));
  }
  report.text =
      describe(network) + ", " + describe(predicted.training.stack, network) + ", forward and all gradients on " +
      step.device + "\n\n" +
      to_aligned(columns.table(ways, {"library", "us", "low_us", "high_us", "samples", "predicted_us", "best", "pick",
                                      "forward_us", "backward_us", "products_us", "other_us", "note", "refusal"})) +
      "\nmodel, of its chosen plan, " + (is_on_chip(predicted.planned->plan) ? kOwn : "cudnn") + ": " +
      fixed(predicted.planned->prediction.step_us, 2) + " us\n";
  for (const RankedTraining& one : predicted.ranking) {
    if (one.is_library()) {
      report.text +=
          "model, " + std::string(one.library()) + ": " + fixed(one.iteration.us / network.steps, 2) + " us\n";
    }
  }
  if (step.own) {
    report.text += std::string("model, ") + kOwn + ": " + fixed(step.own->price.us / network.steps, 2) + " us\n" +
                   to_string(step.own->plan) + '\n';
    if (step.own->refused) {
      report.text += "the compiler spills " + to_string(*step.own->refused) + '\n';
      report.json["refused_plan"] = to_string(*step.own->refused);
    }
  }
  return report;
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

MeasuredStep measure_step(const ChipFile& chip, const PreparedStep& prepared, const std::string& device,
                          const MeasureOptions& options) {
  const AskedTraining& asked = prepared.asked;
  const Recurrent& network = asked.training.network;
  MeasuredStep step{asked, device, predict_training(chip, asked.training, asked.constraints), {}, {}};
  std::vector<Way> ways;
  try {
    if (prepared.problem) {
      std::rethrow_exception(prepared.problem);
    }
    step.own = load_own_step(chip.chip, asked, *prepared.program);
    ways = {std::move(step.own->ways.graph)};
    if (step.own->ways.parts.sample) {
      ways.push_back(std::move(step.own->ways.parts));
    }
  } catch (const std::exception& error) {  // a refusal, or a failure of the device, beside libraries is a row
    if (!options.baselines) {
      throw;
    }
    step.own.reset();
    ways.push_back({.name = kOwn, .failure = error.what()});
  }
  const std::size_t first_library = ways.size();
  if (options.baselines) {
    std::ranges::move(
        baseline_ways(training_baseline_candidates(network, asked.training.stack), network, {}, options.say),
        std::back_inserter(ways));
  }
  options.say("measuring " + describe(network));
  time_ways(ways, options.timing);
  if (first_library > 1) {  // its parts are beside it, and no way of their own
    step.own->ways.parts = std::move(ways[1]);
  }
  step.ways.push_back(std::move(ways[0]));
  step.ways.insert(step.ways.end(), std::move_iterator(ways.begin() + static_cast<std::ptrdiff_t>(first_library)),
                   std::move_iterator(ways.end()));
  return step;
}

int measure_one(const ChipFile& chip, const AskedTraining& asked, const MeasureOptions& options, Output& output) {
  const Manifest manifest = current_manifest();
  const MeasuredStep step =
      measure_step(chip, prepare_step(chip.chip, asked, manifest.architecture), manifest.gpu, options);
  output.write(report_of(step));
  return std::ranges::any_of(step.ways, &Way::ran) ? 0 : 1;
}

int measure_file(const ChipFile& chip, const CsvReader& file, const MeasureOptions& options, Output& output) {
  const Manifest manifest = current_manifest();
  const Columns<MeasuredStepWay> columns = make_training_columns();
  return measure_rows(
      file.file(), file.size(), columns.table({}).columns, output,
      [&](std::size_t i) { return prepare_step(chip.chip, read_training_row(file, i), manifest.architecture); },
      [&](std::size_t, std::future<PreparedStep> prepared) {
        const MeasuredStep step = measure_step(chip, prepared.get(), manifest.gpu, options);
        RowsMeasured rows;
        for (const MeasuredStepWay& way : ways_of(step)) {
          rows.cells.push_back(columns.cells(way));
        }
        if (step.own && !step.ways.front().ran()) {
          rows.problems.push_back(step.ways.front().failure);
        }
        return rows;
      });
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

ColumnGroup training_columns() {
  return make_training_columns().group("training");
}

int measure_training(const Options& options, const ChipFile& chip, std::optional<AskedTraining> one,
                     const MeasureOptions& measure_options) {
  Output output(options);
  if (one) {
    one->constraints.fields = {options.text("plan-forward"), options.text("plan-backward")};
  }
  const auto file = one ? std::nullopt : std::optional<CsvReader>(options.text("configurations"));
  if (!options.flag("compile-only")) {
    return one ? measure_one(chip, *one, measure_options, output) : measure_file(chip, *file, measure_options, output);
  }
  const auto asked_of = [&](int i) { return one ? *one : read_training_row(*file, static_cast<std::size_t>(i)); };
  return compile_all_of(chip, one ? 1 : static_cast<int>(file->size()), asked_of,
                        options.given("arch") ? options.text("arch") : chip.chip.architecture, output);
}

}  // namespace onchip
