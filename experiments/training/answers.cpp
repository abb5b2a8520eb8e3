// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/answers.hpp"

#include "experiments/command/configuration_rows.hpp"
#include "experiments/command/output.hpp"
#include "experiments/command/plan_options.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"
#include "model/families/workload.hpp"

#include <utility>

namespace onchip {

OptionGroup training_options() {
  return option_group(
      "Training",
      {{"mode", "MODE",
        "Ask of inference, or with train of a training step: the forward pass and all gradients; with --density, "
        "--mask or --weights of an LSTM whose recurrent weights are sparse and stay so.",
        "inference"},
       {"stash", "KIND",
        "With --mode train keep all gates for the backward pass, or cells and compute the gates anew, or states now "
        "and then "
        "and replay the forward pass (default: gates, "
        "with --memory the fastest that fits)."},
       {"memory", "BYTES",
        "With --mode train take plans that need at most so much device memory beside the input and the weights, "
        "e.g. \"24 GiB\"."}});
}

TrainingQuestion read_training_question(const Options& options, bool needs_hidden) {
  std::vector<std::string> of_plan = names_of({plan_options()});
  std::erase(of_plan, "family");
  options.refuse(of_plan, "is of one recurrence: with --mode train give a whole plan by --plan");
  TrainingQuestion question{{}, read_configuration(options, needs_hidden), read_stack(options).value_or(Stack{}), {}};
  if (!options.given("density") && !options.given("mask") && !options.given("weights")) {
    question.configuration.network.density = 1;
  }
  TrainingConstraints& constraints = question.constraints;
  if (const std::string family = options.text("family"); options.given("family") && family != "auto") {
    if (!has_family<Training>(family)) {
      throw InputError("--family: unknown family of trainings '" + family + "': expected " +
                       std::string(DenseTrainingPlan::kName) + ", " + std::string(SparseTrainingPlan::kName) + " or " +
                       std::string(CudnnTrainingPlan::kName));
    }
    constraints.family = family;
  }
  if (options.given("stash")) {
    constraints.stash = static_cast<Stash>(
        options.choice("stash", options.text("stash"), {kStashNames[0], kStashNames[1], kStashNames[2]}));
  }
  if (options.given("memory")) {
    constraints.memory_bytes = parse_quantity(options.text("memory"), Dimension::bytes);
  }
  if (const std::string plan = options.text("plan"); !plan.empty() && plan != "auto" && plan != kAllPlans) {
    constraints.plan = parse_plan_as<TrainingPlan>(plan);
  }
  return question;
}

namespace {

AskedTraining asked_of(const TrainingQuestion& question) {
  const Configuration& configuration = question.configuration;
  const bool is_sparse = configuration.network.density != 1;
  return {training_of(configuration, question.stack), is_sparse ? std::string(mask_name(configuration)) : "",
          is_sparse ? configuration.seed : 1, question.constraints};
}

}  // namespace

bool asks_training(const Options& options) {
  const bool trains = options.choice("mode", options.text("mode"), {"inference", "train"}) == 1;
  options.refuse({"stash", "memory"}, "needs --mode train", !trains);
  return trains;
}

Configuration read_stack_configuration(const Options& options, bool needs_hidden) {
  std::vector<std::string> of_layer = names_of({plan_options()});
  of_layer.insert(of_layer.end(), {"density", "mask", "weights", "compile"});
  options.refuse(of_layer, "is of one layer: a stack that is on the chip at once is dense");
  Configuration configuration =
      read_configuration(options, needs_hidden, /*takes_all_families=*/false, /*takes_plan=*/false);
  configuration.network.density = 1;
  return configuration;
}

AskedTraining read_stack_to_run(const Options& options, const Stack& stack) {
  AskedTraining asked{training_of(read_stack_configuration(options, /*needs_hidden=*/true), stack), "", 1, {}};
  asked.constraints.stash = Stash::none;
  if (const std::string plan = options.text("plan"); !plan.empty() && plan != "auto") {
    asked.constraints.plan = parse_training_plan(plan);
  }
  return asked;
}

AskedTraining read_training(const Options& options) {
  return asked_of(read_training_question(options, /*needs_hidden=*/true));
}

AskedTraining read_training_row(const CsvReader& file, std::size_t row) {
  const auto words = [&](const char* column) { return file.has(column) ? file.text(row, column) : std::string(); };
  TrainingQuestion question;
  question.configuration.network.density = 1;
  question.configuration =
      read_configuration_row(file, row, /*with_weights=*/false, &std::as_const(question.configuration));
  question.stack.input = words("input").empty() ? 0 : static_cast<int>(read_whole(file, row, "input"));
  question.stack.layers = words("layers").empty() ? 1 : static_cast<int>(read_whole(file, row, "layers", kMostLayers));
  question.stack.bidirectional = !words("directions").empty() && read_whole(file, row, "directions", 2) == 2;
  question.constraints.fields = {words("plan_forward"), words("plan_backward")};
  try {
    if (!words("plan").empty()) {
      question.constraints.plan = parse_training_plan(words("plan"));
    }
    check(question.configuration);
    return asked_of(question);
  } catch (const InputError& error) {
    file.fail(row, error.what());
  }
}

namespace {

std::string megabytes(double bytes) {
  return fixed(bytes / 1e6, bytes < 1e7 ? 2 : 0);
}

std::string time_text(const TrainingPrediction& prediction) {
  const PhasePrice& iteration = prediction.iteration;
  return fixed(iteration.us, 0) + " us (95 %: " + fixed(iteration.low_us, 0) + " to " + fixed(iteration.high_us, 0) +
         "), " + fixed(prediction.step_us, 2) + " us for each step";
}

std::string memory_text(const TrainingPrediction& prediction) {
  const auto words = [](std::int64_t bytes) { return megabytes(static_cast<double>(bytes)) + " MB"; };
  const TrainingMemory& memory = prediction.memory;
  return "stash      " + words(memory.stash_bytes) + ", the output included\nworkspace  " +
         words(memory.workspace_bytes) + "\npeak       " + words(memory.peak_bytes) +
         ", beside the input and the weights\n";
}

}  // namespace

Report report_of(const TrainingAnswer& answer) {
  const Recurrent& network = answer.training.network;
  const Stack& stack = answer.training.stack;
  const auto& [plan, prediction] = *answer.planned;
  Table table{{"layer", "direction", "phase", "us", "us per step", "MB", "beside", "how"}, {}};
  Table csv{{"chip", "cell", "hidden", "batch", "steps", "precision", "layers", "directions", "input", "layer",
             "direction", "phase", "beside", "us", "low_us", "high_us", "bytes", "how"},
            {}};
  const auto add = [&](const std::string& layer, const std::string& direction, std::string_view what, bool beside,
                       const PhasePrice& time, const std::string& how) {
    table.rows.push_back({layer, direction, std::string(what), fixed(time.us, 1), fixed(time.us / network.steps, 3),
                          megabytes(static_cast<double>(time.bytes)), beside ? "yes" : "", how});
    csv.rows.push_back({answer.chip, std::string(info(network.cell).name), std::to_string(network.hidden),
                        std::to_string(network.batch), std::to_string(network.steps),
                        std::string(info(network.precision).name), std::to_string(stack.layers),
                        std::to_string(stack.directions()), std::to_string(stack.columns(network, 0)), layer, direction,
                        std::string(what), truth(beside), significant(time.us, 6), significant(time.low_us, 6),
                        significant(time.high_us, 6), std::to_string(time.bytes), how});
  };
  const std::vector<Phase> phases = phases_of(answer.training, plan);
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Phase& phase = phases[i];
    add(phase.is_of_layer() ? std::to_string(phase.layer) : "",
        !phase.is_of_layer() ? ""
        : phase.reversed     ? "backward"
                             : "forward",
        name(phase.kind), phase.beside, prediction.phases[i], how_text(phase));
  }
  add("", "", "total", false, prediction.iteration, "");
  std::string text = describe(answer) + "\n\niteration  " + time_text(prediction) + '\n' + memory_text(prediction) +
                     '\n' + to_aligned(table) + '\n';
  for (const RankedTraining& one : answer.ranking) {
    const PhasePrice& time = one.iteration;
    if (one.is_library() && time.us == 0) {
      text += std::string(one.library()) + ": " + one.why + '\n';
    } else if (one.is_library()) {
      text += std::string(one.library()) + ": " + fixed(time.us, 0) + " us (" + fixed(time.low_us, 0) + " to " +
              fixed(time.high_us, 0) + "), " + fixed(time.us / network.steps, 2) + " us for each step, " +
              std::string(one.computes()) + '\n';
    } else if (!is_on_chip(plan)) {
      text += one.planned ? "onchip's own kernels: " + fixed(time.us, 0) + " us, " + fixed(time.us / network.steps, 2) +
                                " us for each step\n"
                          : "no kernels of onchip: " + one.why + '\n';
    }
  }
  return {text + '\n' + to_string(plan) + '\n', csv, to_json(answer)};
}

namespace {

std::string otherwise_text(const TrainingCase& answer) {
  return answer.otherwise ? "otherwise  " + time_text(answer.otherwise->prediction) + ", " +
                                way_text(std::get<DenseTrainingPlan>(answer.otherwise->plan)) + '\n'
                          : "";
}

}  // namespace

std::string to_text(const TrainingCase& answer) {
  if (!answer.planned) {
    return describe(answer) + "\n\ndoes not fit: " + answer.planned.why() + '\n' + otherwise_text(answer);
  }
  const TrainingPrediction& prediction = answer.planned->prediction;
  return describe(answer) + "\n\n" + explain(prediction.footprint) +
         (answer.is_resident ? "\nsequence   " : "\niteration  ") + time_text(prediction) + '\n' +
         memory_text(prediction) + "plan       " + to_string(answer.planned->plan) + '\n' + otherwise_text(answer);
}

Report report_of(const TrainingFit& fit) {
  Report report{to_text(fit.answer), columns_of(fit.answer).table({&fit.answer, 1}), to_json(fit)};
  Table limits{{"the largest", "", "beyond it"}, {}};
  for (const TrainingLimit& limit : fit.limits) {
    limits.rows.push_back({std::string(limit.what), std::to_string(limit.largest), limit.why});
    report.csv.columns.push_back("largest_" + std::string(limit.what));
    report.csv.rows.front().push_back(std::to_string(limit.largest));
  }
  if (!fit.limits.empty()) {
    report.text += fit.answer.is_resident ? "\nAll layers are on the SMs at once up to these, each alone:\n"
                                          : "\nWeights stay on the chip in both passes up to these, each alone:\n";
    report.text += to_aligned(limits);
  }
  if (fit.to_fit) {
    std::string remedies;
    for (const LeastOf<TrainingCase>& least : fit.to_fit->alone) {
      remedies += least.reaches ? "  - " + least.at.option + '\n' : "";
    }
    report.text += remedies.empty() ? "" : "\nAny one of these makes it fit:\n" + remedies;
  }
  return report;
}

}  // namespace onchip
