// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/answers.hpp"

#include "experiments/command/output.hpp"
#include "experiments/command/plan_options.hpp"
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

// Of a network that is not dense, the mask, too.
void take_network(AskedTraining& asked, const Configuration& configuration) {
  Training& training = asked.training;
  const Recurrent& network = training.network = configuration.network;
  if (network.density == 1) {
    return;
  }
  if (const std::string lacks = what_lacks_sparse(training); !lacks.empty()) {
    throw InputError(lacks);
  }
  asked.mask = mask_name(configuration);
  asked.seed = configuration.seed;
  const double nonzeros = network.density * network.rows() * network.hidden;
  if (!configuration.weights && nonzeros > kMostGenerated) {
    throw InputError("W_hh has " + format_number(std::round(nonzeros)) + " non-zeros: no chip holds so many");
  }
  training.mask = recurrent_matrix(configuration);
}

}  // namespace

std::optional<AskedTraining> read_training(const Options& options) {
  const bool trains = options.choice("mode", options.text("mode"), {"inference", "train"}) == 1;
  if (!trains) {
    if (options.given("stash")) {
      throw InputError("--stash needs --mode train");
    }
    return std::nullopt;
  }
  const OptionGroup of_plan = plan_options();
  for (const auto& option : of_plan.options()) {
    if (options.given(option->long_name())) {
      throw InputError("--" + option->long_name() +
                       " is of one recurrence: with --mode train give the whole step by --plan");
    }
  }
  AskedTraining asked;
  asked.stash = static_cast<Stash>(options.choice("stash", options.text("stash"), {kStashNames[0], kStashNames[1]}));
  asked.training.stack = read_stack(options).value_or(Stack{});
  Configuration configuration = read_configuration(options, /*needs_hidden=*/true);
  if (!options.given("density") && !options.given("mask") && !options.given("weights")) {
    configuration.network.density = 1;
  }
  take_network(asked, configuration);
  if (options.given("plan") && options.text("plan") != "auto") {
    asked.step = parse_training_step(options.text("plan"));
  }
  return asked;
}

AskedTraining read_training_row(const CsvReader& file, std::size_t row) {
  const auto words = [&](const char* column) { return file.has(column) ? file.text(row, column) : std::string(); };
  AskedTraining asked;
  Configuration configuration;
  Recurrent& network = configuration.network;
  network.density = 1;
  double seed = 1;
  for (const auto& [column, value, is_needed] :
       std::initializer_list<std::tuple<const char*, int*, bool>>{{"hidden", &network.hidden, true},
                                                                  {"batch", &network.batch, true},
                                                                  {"steps", &network.steps, false},
                                                                  {"input", &asked.training.stack.input, false}}) {
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
    take_network(asked, configuration);
  } catch (const InputError& error) {
    file.fail(row, error.what());
  }
  asked.forward = words("plan_forward");
  asked.backward = words("plan_backward");
  return asked;
}

namespace {

std::string megabytes(double bytes) {
  return fixed(bytes / 1e6, bytes < 1e7 ? 2 : 0);
}

Report report_of(const TrainingAnswer& answer) {
  const Recurrent& network = answer.training.network;
  const TrainingPrice& price = answer.price;
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
                        std::string(info(network.precision).name), std::to_string(answer.training.stack.layers),
                        std::to_string(answer.training.stack.directions()),
                        std::to_string(answer.training.stack.columns(network, 0)), layer, direction, std::string(what),
                        truth(beside), significant(time.us, 6), significant(time.low_us, 6),
                        significant(time.high_us, 6), std::to_string(time.bytes), how});
  };
  PhasePrice total{price.us, price.low_us, price.high_us, 0};
  for (std::size_t i = 0; i < answer.step.phases.size(); ++i) {
    const Phase& phase = answer.step.phases[i];
    const bool is_of_layer = phase.kind != PhaseKind::packing && phase.kind != PhaseKind::library;
    add(is_of_layer ? std::to_string(phase.layer) : "",
        !is_of_layer     ? ""
        : phase.reversed ? "backward"
                         : "forward",
        name(phase.kind), phase.beside, price.phases[i], how_text(phase));
    total.bytes += price.phases[i].bytes;
  }
  add("", "", "total", false, total, "");
  std::string text = describe(network) + ", " + describe(answer.training.stack, network) + ", training on " +
                     answer.chip + "\n\niteration  " + fixed(price.us, 0) + " us (95 %: " + fixed(price.low_us, 0) +
                     " to " + fixed(price.high_us, 0) + "), " + fixed(price.us / network.steps, 2) +
                     " us for each step\nstash      " + megabytes(static_cast<double>(price.stash_bytes)) +
                     " MB, the output included\nworkspace  " + megabytes(static_cast<double>(price.workspace_bytes)) +
                     " MB\n\n" + to_aligned(table) + '\n';
  for (const LibraryTraining& library : answer.libraries) {
    text += std::string(library.library) + ": " + fixed(library.us, 0) + " us (" + fixed(library.low_us, 0) + " to " +
            fixed(library.high_us, 0) + "), " + fixed(library.us / network.steps, 2) + " us for each step, " +
            std::string(library.what) + '\n';
  }
  if (answer.own) {
    text += "onchip's own kernels: " + fixed(answer.own->us, 0) + " us, " + fixed(answer.own->us / network.steps, 2) +
            " us for each step\n";
  } else if (!answer.lacks.empty()) {
    text += "no kernels of onchip: " + answer.lacks + '\n';
  }
  return {text + '\n' + to_string(answer.step) + '\n', csv, to_json(answer)};
}

}  // namespace

int predict_training(const Options& options, const AskedTraining& asked) {
  const ChipFile chip = read_chip(options);
  Output output(options);
  output.write(report_of(predict_training(chip, asked.training, asked.stash, asked.step)));
  return 0;
}

}  // namespace onchip
