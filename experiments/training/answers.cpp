// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/answers.hpp"

#include "experiments/command/output.hpp"
#include "experiments/command/plan_options.hpp"
#include "experiments/command/report.hpp"
#include "experiments/measurement/configuration.hpp"
#include "experiments/reports/target_report.hpp"
#include "experiments/reports/what_if_report.hpp"
#include "model/answer/training/training.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/units.hpp"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <tuple>

namespace onchip {

OptionGroup training_options() {
  OptionGroup group = option_group("Training");
  // clang-format off
  group.add_options()
      ("mode", text_option("MODE")->default_value("inference"),
       "Ask of inference, or with train of a training step: the forward pass and all gradients; with --density, --mask or "
       "--weights of an LSTM whose recurrent weights are sparse and stay so.")
      ("stash", text_option("KIND")->default_value("gates"),
       "With --mode train keep all gates for the backward pass, or only cells and compute the gates anew.");
  // clang-format on
  return group;
}

namespace {

// A network is dense unless it is said otherwise.
TrainingQuestion read_question(const Options& options, bool needs_hidden) {
  const OptionGroup of_plan = plan_options();
  for (const auto& option : of_plan.options()) {
    if (option->long_name() != "family" && options.given(option->long_name())) {
      throw InputError("--" + option->long_name() +
                       " is of one recurrence: with --mode train give a whole plan by --plan");
    }
  }
  TrainingQuestion question{{}, read_configuration(options, needs_hidden), read_stack(options).value_or(Stack{}), {}};
  if (!options.given("density") && !options.given("mask") && !options.given("weights")) {
    question.configuration.network.density = 1;
  }
  TrainingConstraints& constraints = question.constraints;
  if (options.given("family") && options.text("family") != "auto") {
    constraints.family = options.text("family");
  }
  constraints.stash =
      static_cast<Stash>(options.choice("stash", options.text("stash"), {kStashNames[0], kStashNames[1]}));
  if (options.given("plan") && options.text("plan") != "auto") {
    constraints.plan = parse_training_plan(options.text("plan"));
  }
  return question;
}

AskedTraining asked_of(const TrainingQuestion& question) {
  const Configuration& configuration = question.configuration;
  const bool is_sparse = configuration.network.density != 1;
  return {training_of(configuration, question.stack), is_sparse ? std::string(mask_name(configuration)) : "",
          is_sparse ? configuration.seed : 1, question.constraints};
}

}  // namespace

bool asks_training(const Options& options) {
  const bool trains = options.choice("mode", options.text("mode"), {"inference", "train"}) == 1;
  if (!trains && options.given("stash")) {
    throw InputError("--stash needs --mode train");
  }
  return trains;
}

void refuse_stack(const Options& options) {
  if (read_stack(options)) {
    throw InputError("--layers, --bidirectional and --input need --mode train here: the answer is of one layer");
  }
}

AskedTraining read_training(const Options& options) {
  return asked_of(read_question(options, /*needs_hidden=*/true));
}

AskedTraining read_training_row(const CsvReader& file, std::size_t row) {
  const auto words = [&](const char* column) { return file.has(column) ? file.text(row, column) : std::string(); };
  TrainingQuestion question;
  Configuration& configuration = question.configuration;
  Recurrent& network = configuration.network;
  network.density = 1;
  double seed = 1;
  for (const auto& [column, value, is_needed] :
       std::initializer_list<std::tuple<const char*, int*, bool>>{{"hidden", &network.hidden, true},
                                                                  {"batch", &network.batch, true},
                                                                  {"steps", &network.steps, false},
                                                                  {"input", &question.stack.input, false}}) {
    if (!is_needed && words(column).empty()) {
      continue;
    }
    const double number = file.number(row, column);
    if (!(number >= 1 && number <= std::numeric_limits<int>::max() && number == std::floor(number))) {
      file.fail(row, "column '" + std::string(column) + "': found " + in_quotes(words(column)) +
                         ": expected a whole number above 0");
    }
    *value = static_cast<int>(number);
  }
  try {
    network.cell = parse_cell(file.text(row, "cell"));
    network.precision = parse_precision(file.text(row, "precision"));
    for (const auto& [column, value, most] : std::initializer_list<std::tuple<const char*, double*, double>>{
             {"density", &network.density, 1.0}, {"seed", &seed, static_cast<double>(kMostSeed)}}) {
      *value = words(column).empty() ? *value : file.number(row, column);
      if (!(*value >= 0 && *value <= most)) {
        throw InputError("column '" + std::string(column) + "': found " + in_quotes(words(column)) +
                         ": expected 0 to " + format_number(most));
      }
    }
    configuration.seed = static_cast<std::uint64_t>(seed);
    configuration.mask = words("mask").empty() ? MaskKind::uniform : parse_mask(words("mask"));
    check(configuration);
    question.constraints.fields = {words("plan_forward"), words("plan_backward")};
    return asked_of(question);
  } catch (const InputError& error) {
    file.fail(row, error.what());
  }
}

namespace {

std::string megabytes(double bytes) {
  return fixed(bytes / 1e6, bytes < 1e7 ? 2 : 0);
}

std::string title(const TrainingCase& answer) {
  return describe(answer.training.network) + ", " + describe(answer.training.stack, answer.training.network) +
         ", training on " + answer.chip;
}

std::string time_text(const TrainingPrediction& prediction) {
  const PhasePrice& iteration = prediction.iteration;
  return fixed(iteration.us, 0) + " us (95 %: " + fixed(iteration.low_us, 0) + " to " + fixed(iteration.high_us, 0) +
         "), " + fixed(prediction.step_us, 2) + " us for each step";
}

std::string memory_text(const TrainingPrediction& prediction) {
  return "stash      " + megabytes(static_cast<double>(prediction.stash_bytes)) +
         " MB, the output included\nworkspace  " + megabytes(static_cast<double>(prediction.workspace_bytes)) + " MB\n";
}

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
  std::string text = title(answer) + "\n\niteration  " + time_text(prediction) + '\n' + memory_text(prediction) + '\n' +
                     to_aligned(table) + '\n';
  for (const RankedTraining& one : answer.ranking) {
    const PhasePrice& time = one.iteration;
    if (one.is_library()) {
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

// ---- fit and what-if ------------------------------------------------------------------------------------------------

std::vector<std::string> case_columns_of_training() {
  return {"chip",   "cell",        "hidden",          "batch", "steps",   "precision", "density",
          "layers", "directions",  "input",           "fits",  "step_us", "low_us",    "high_us",
          "us",     "stash_bytes", "workspace_bytes", "plan",  "why"};
}

std::vector<std::string> cells_of(const TrainingCase& answer) {
  const Recurrent& network = answer.training.network;
  const Stack& stack = answer.training.stack;
  std::vector<std::string> cells{answer.chip,
                                 std::string(info(network.cell).name),
                                 std::to_string(network.hidden),
                                 std::to_string(network.batch),
                                 std::to_string(network.steps),
                                 std::string(info(network.precision).name),
                                 format_number(network.density),
                                 std::to_string(stack.layers),
                                 std::to_string(stack.directions()),
                                 std::to_string(stack.columns(network, 0)),
                                 truth(answer.fits())};
  if (!answer.planned) {
    cells.resize(case_columns_of_training().size() - 1);
    cells.push_back(answer.planned.why());
    return cells;
  }
  const auto& [plan, prediction] = *answer.planned;
  cells.insert(cells.end(), {significant(prediction.step_us, 6), significant(prediction.low_us, 6),
                             significant(prediction.high_us, 6), significant(prediction.iteration.us, 6),
                             std::to_string(prediction.stash_bytes), std::to_string(prediction.workspace_bytes),
                             to_string(plan), answer.fits() ? "" : explain(prediction.footprint)});
  return cells;
}

ShownAnswer shown(const TrainingCase& answer) {
  const bool fits = answer.fits();
  return {"step",
          "step us",
          fits             ? fixed(answer.planned->prediction.step_us, 3) + " us"
          : answer.planned ? explain(answer.planned->prediction.footprint)
                           : answer.planned.why(),
          fits ? fixed(answer.planned->prediction.step_us, 3) : "",
          fits ? std::string(answer.planned->prediction.binding()) : "",
          cells_of(answer)};
}

std::string case_text(const TrainingCase& answer) {
  if (!answer.planned) {
    return title(answer) + "\n\ndoes not fit: " + answer.planned.why() + '\n';
  }
  const TrainingPrediction& prediction = answer.planned->prediction;
  return title(answer) + "\n\n" + explain(prediction.footprint) + "\niteration  " + time_text(prediction) + '\n' +
         memory_text(prediction) + "plan       " + to_string(answer.planned->plan) + '\n';
}

Report report_of(const TrainingFit& fit) {
  Report report{case_text(fit.answer), {case_columns_of_training(), {cells_of(fit.answer)}}, to_json(fit)};
  Table limits{{"the largest", "", "beyond it"}, {}};
  for (const TrainingLimit& limit : fit.limits) {
    limits.rows.push_back({std::string(limit.what), std::to_string(limit.largest), limit.why});
    report.csv.columns.push_back("largest_" + std::string(limit.what));
    report.csv.rows.front().push_back(std::to_string(limit.largest));
  }
  if (!fit.limits.empty()) {
    report.text += "\nWeights stay on the chip in both passes up to these, each alone:\n" + to_aligned(limits);
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

Report report_of(const TrainingTarget& answer) {
  const std::string wanted = answer.target.step_us
                                 ? "a step of at most " + significant(*answer.target.step_us, 6) + " us"
                                 : std::string("it fits");
  return report_of(title(answer.base) + "\n\ntarget    " + wanted, with_answers<ShownAnswer>(answer, shown),
                   case_columns_of_training(), to_json(answer));
}

Report report_of(const TrainingWhatIf& answer) {
  const auto side_of = [](const TrainingSide& side) {
    return ComparedSide{side.training.network.hidden,
                        side.planned ? Prediction(side.planned->prediction) : Prediction{}, shown(side).says,
                        side.largest_hidden, plan_time(side)};
  };
  return report_of(ComparedSides{with_sides<ComparedSide>(answer, side_of), title(answer.base), case_text(answer.base),
                                 interaction(answer), answer.sensitivity, answer.one_more},
                   to_json(answer));
}

}  // namespace

int predict_training(const Options& options) {
  const AskedTraining asked = read_training(options);
  const ChipFile chip = read_chip(options);
  Output output(options);
  output.write(report_of(predict_training(chip, asked.training, asked.constraints)));
  return 0;
}

int fit_training(const Options& options) {
  TrainingQuestion question = read_question(options, /*needs_hidden=*/false);
  question.chip = read_chip(options);
  question.granule = read_granule(options);
  Output output(options);
  const TrainingFit fit = fit_training(question);
  output.write(report_of(fit));
  return fit.answer.fits() ? 0 : 1;
}

int what_if_training(const Options& options) {
  const auto targets = options.list("target"), vary = options.list("vary"), prices = options.list("price");
  TrainingQuestion question = read_question(options, /*needs_hidden=*/false);
  question.granule = read_granule(options);
  if (!targets.empty() || !vary.empty() || !prices.empty()) {
    question.chip = read_chip(options);
    Output output(options);
    const TrainingTarget answer = reach_training(question, target_question({}, targets, vary, prices));
    output.write(report_of(answer));
    return answer.reaches() ? 0 : 1;
  }
  question.chip = read_base_chip(options);
  Output output(options);
  const TrainingWhatIf answer = what_if_training(question, options.list("set"), !options.flag("no-ranking"));
  output.write(report_of(answer));
  return answer.base.fits() ? 0 : 1;
}

}  // namespace onchip
