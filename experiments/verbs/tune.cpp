// SPDX-License-Identifier: Apache-2.0
// onchip tune: which plan of a training layer is the fastest here? Timed, and remembered.
#include "experiments/command/progress.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/measurement/manifest.hpp"
#include "model/base/error.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/training/tune.hpp"
#endif

namespace onchip {
namespace {

OptionGroup layer_options() {
  return option_group(
      "Layer", {{"cell", "CELL", "Set the cell: lstm or gru.", "lstm"},
                {"hidden", "N", "Set the number of hidden units."},
                {"batch", "N", "Set the number of sequences computed together.", "64"},
                {"steps", "N", "Set the number of time steps: what is remembered is for any.", "256"},
                {"precision", "TYPE", "Set the type of weights and state: fp16 or bf16.", "fp16"},
                {"input", "N", "Set the elements of a sample's input (default: as many as --hidden)."},
                {"bidirectional", "", "Run the layer in both directions."},
                {"stash", "KIND", "Keep the gates for the backward pass, or cells, or states to replay from.", "gates"},
                {"configurations", "FILE",
                 "Tune the layers of this CSV: columns cell, hidden, batch, precision and, if wanted, steps, "
                 "directions and input. "
                 "The same call goes on where it was stopped: what is remembered is not timed again."}});
}

OptionGroup tune_options() {
  return option_group("Tuning", {{"again", "", "Time what is remembered again."},
                                 {"repeats", "N", "Take at most this many samples of a plan.", "10"}});
}

std::vector<OptionGroup> all_tune_options() {
  return {chip_options(), layer_options(), tune_options(), output_options()};
}

#ifdef ONCHIP_HAS_CUDA

AskedTraining read_layer(const Options& options) {
  constexpr int kMost = 1 << 20;
  if (!options.given("hidden")) {
    throw InputError("--hidden is needed, or a file of --configurations");
  }
  const auto number = [&](const char* name) { return static_cast<int>(options.whole(name, 1, kMost)); };
  Recurrent network;
  network.cell = parse_cell(options.text("cell"));
  network.precision = parse_precision(options.text("precision"));
  network.hidden = number("hidden");
  network.batch = number("batch");
  network.steps = number("steps");
  network.density = 1;
  AskedTraining asked{
      {network,
       {.bidirectional = options.flag("bidirectional"), .input = options.given("input") ? number("input") : 0},
       nullptr},
      ""};
  asked.constraints.stash = parse_stash(options.text("stash"));
  return asked;
}

#endif

int run_tune([[maybe_unused]] const Options& options) {
#ifdef ONCHIP_HAS_CUDA
  std::optional<AskedTraining> one;
  if (options.given("configurations")) {
    options.refuse({"cell", "hidden", "batch", "steps", "precision", "input", "bidirectional", "stash"},
                   "contradicts --configurations: the rows of the file say it");
  } else {
    one = read_layer(options);
  }
  const ChipFile chip = read_measured_chip(options);
  Progress progress;
  MeasureOptions measure_options{
      .timing = {.most_samples = static_cast<int>(options.whole("repeats", 1, 100000)), .longest_s = 1}};
  measure_options.say = [&](const std::string& what) { progress.show(what); };
  return tune_training(options, chip, one, options.flag("again"), measure_options);
#else
  throw InputError("built without CUDA: tune needs a CUDA toolkit when onchip is configured");
#endif
}

}  // namespace

const Verb kTuneVerb{"tune", "Time the best plans of a training layer, and remember the fastest.",
                     "onchip tune --cell lstm --hidden 1024 --batch 128", all_tune_options, run_tune};

}  // namespace onchip
