// SPDX-License-Identifier: Apache-2.0
// onchip sweep: rows for all combinations of axes' values, by the model, the simulator or this machine's GPU.
#include "experiments/explore/sweep.hpp"

#include "experiments/command/plan_options.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/feed_forward/questions.hpp"
#include "experiments/reports/simulation_report.hpp"
#include "experiments/training/answers.hpp"
#include "model/answer/constraint_words.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/measurement/manifest.hpp"
#include "experiments/measurement/measurement.hpp"
#endif

#include <errno.h>

#include <algorithm>
#include <string>
#include <utility>

namespace onchip {
namespace {

namespace po = boost::program_options;

OptionGroup sweep_options() {
  OptionGroup group = option_group("Sweep");
  const auto texts = [](const char* name) {
    return po::value<std::vector<std::string>>()->composing()->value_name(name);
  };
  // clang-format off
  group.add_options()
      ("spec", text_option("FILE"), "Read axes and fixed keys from a TOML file; a bare word is one, too.")
      ("axis", texts("KEY=VALUES"),
       "Vary a key of chip, network or plan, e.g. hidden=512:8192:256 (from, to, step), batch=1:64:x2 (times 2), "
       "density=0.01:1:log9 (9 values), cell=lstm,gru, sm.clock=+0%,+10%, hidden=@nets.csv:hidden (a column); "
       "'KEY=VALUES; KEY=VALUES' moves keys together; repeatable, the last axis varies fastest.")
      ("where", text_option("EXPRESSION"), "Leave out rows of which this is false, e.g. 'fits && step_us < 5'.")
      ("column", texts("NAME=EXPRESSION"),
       "Add a column, e.g. 'us_per_sample=step_us/batch', or a number by its name, e.g. gather_us; repeatable.")
      ("engine", text_option("NAME")->default_value("model"),
       "Ask the model, the simulator or, on this machine's GPU, measure.")
      ("rows", text_option("KIND")->default_value("exact"),
       "Take row lengths from the generated mask (exact, as predict does) or as they are expected (expected: quicker).")
      ("keep-front", text_option("OBJECTIVES"),
       "Keep only the Pareto front, e.g. step_us:min,hidden:max; see pareto.")
      ("threads", text_option("N"), "Use this many threads (default: all cores); the rows do not depend on it.");
  // clang-format on
  return group;
}

OptionGroup sweep_output_options() {
  OptionGroup group = option_group("Output");
  // clang-format off
  group.add_options()
      ("output,o", text_option("FILE"),
       "Append rows to a .csv or .jsonl file, with a manifest beside it; the same command goes on where it was ended.")
      ("format", text_option("FORMAT"), "Write csv or jsonl (default: by the extension of -o, else csv).");
  // clang-format on
  return group;
}

template <typename Read>
void of_option(const std::string& option, Read&& read) {
  try {
    read();
  } catch (const InputError& error) {
    throw InputError("--" + option + ": " + error.what());
  }
}

SweepSpec read_spec(const Options& options) {
  SweepSpec spec;
  if (options.given("spec")) {
    read_spec_file(spec, options.text("spec"));
  }
  std::vector<std::pair<std::string, std::string>> keys;  // option, key
  for (const char* key : {"chip",   "cell",    "hidden", "batch", "steps",  "density", "precision", "mask",
                          "seed",   "weights", "tensor", "plan",  "family", "tier",    "network",   "images",
                          "sample", "alive",   "gpus",   "mode",  "stash",  "layers",  "input"}) {
    keys.emplace_back(key, key);
  }
  for (const FixableField& field : fixable_fields()) {
    std::string option(field.name);
    std::ranges::replace(option, '_', '-');
    keys.emplace_back(option, field.name);
  }
  for (const auto& [option, key] : keys) {
    const std::string text = options.text(option);
    const bool is_planners = text == "auto" && (key == "family" || key == "plan");
    if (options.given(option) && !is_planners) {
      of_option(option, [&, &name = key] { spec.fix(name, text); });
    }
  }
  if (options.flag("bidirectional")) {
    spec.fix("directions", "2");
  }
  for (const std::string& assignment : options.list("set")) {
    of_option("set", [&] { spec.fix(assignment); });
  }
  for (const std::string& axis : options.list("axis")) {
    of_option("axis", [&] { spec.add_axis(axis); });
  }
  for (const std::string& column : options.list("column")) {
    of_option("column", [&] { spec.add_column(column); });
  }
  if (options.given("where")) {
    spec.where = options.text("where");
  }
  if (options.given("keep-front")) {
    of_option("keep-front", [&] { spec.keep_front = parse_objectives(options.text("keep-front")); });
  }
  if (options.given("engine")) {
    spec.engine = options.text("engine");
  }
  if (options.given("rows")) {
    spec.rows = options.text("rows");
  }
#ifdef ONCHIP_HAS_CUDA
  options.choice("engine", spec.engine, {"model", "simulator", "measure"});
#else
  if (spec.engine == "measure") {
    throw InputError("built without CUDA: measure needs a CUDA toolkit when onchip is configured");
  }
  options.choice("engine", spec.engine, {"model", "simulator"});
#endif
  options.choice("rows", spec.rows, {"exact", "expected"});
  spec.granule = read_granule(options);
  finish(spec);
  return spec;
}

SweepOptions read_sweep_options(const Options& options) {
  SweepOptions read;
  read.output = options.text("output") == "-" ? "" : options.text("output");
  const std::string extension = read.output.extension().string();
  if (!options.given("format") && !read.output.empty() && extension != ".csv" && extension != ".jsonl") {
    throw InputError("--output " + read.output.string() + ": expected a name that ends in .csv or .jsonl, or --format");
  }
  const std::string format = options.given("format") ? options.text("format") : extension == ".jsonl" ? "jsonl" : "csv";
  read.format = static_cast<RowFormat>(options.choice("format", format, {"csv", "jsonl"}));
  read.threads = options.given("threads") ? static_cast<int>(options.whole("threads", 1, 4096)) : all_cores();
  return read;
}

// ---- engines --------------------------------------------------------------------------------------------------------

PlannedNetwork simulated(const Chip& chip, Configuration configuration, const RowProfile& rows) {
  if (configuration.family().empty()) {
    configuration.constraints.family = kReplayedFamily;
  }
  PlannedNetwork planned = plan_network(chip, configuration, rows);
  if (planned.prediction.footprint.fits) {
    const Layout layout = make_layout(planned.network, planned.plan, *recurrent_matrix(configuration));
    const Simulation simulation = simulate(chip, *plan_trace(chip, layout));
    Prediction& prediction = planned.prediction;
    prediction.terms = {};
    for (std::size_t i = 0; i < kStepPartNames.size(); ++i) {
      prediction.terms.add(kStepPartNames[i], simulation.parts_us[i]);
    }
    prediction.step_us = simulation.step_us;
    prediction.low_us = simulation.low_us;
    prediction.high_us = simulation.high_us;
  }
  return planned;
}

#ifdef ONCHIP_HAS_CUDA
PlannedNetwork measured(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                        const std::string& architecture) {
  PlannedNetwork planned = compiled_plan(chip, configuration, rows, architecture);
  if (!is_on_chip(planned.plan)) {
    throw InputError("a library's times are measured with 'measure --plan all'");
  }
  if (planned.prediction.footprint.fits) {
    MeasureOptions options;
    options.seed = configuration.seed;
    const auto matrix = recurrent_matrix(configuration);
    const Prepared prepared = prepare(configuration.network, planned.plan, matrix, options);
    const Measurement measurement =
        measure(configuration.network, *matrix, {&prepared, 1}, /*libraries=*/{}, options).kernels.front();
    if (!measurement.failure.empty()) {
      throw InputError(measurement.failure);
    }
    Prediction& prediction = planned.prediction;
    prediction.terms = {};
    prediction.step_us = measurement.step_us.median;
    prediction.low_us = measurement.step_us.low;
    prediction.high_us = measurement.step_us.high;
  }
  return planned;
}
#endif

}  // namespace

int run_sweep(const Verb& verb, const std::vector<std::string>& arguments) {
  constexpr int kInterrupted = 130;  // as a shell says of what SIGINT ended
  const auto options = parse_options(
      verb, arguments,
      {sweep_options(), chip_options(), network_options(), plan_options(), whole_plan_option(), whole_network_options(),
       training_options(), feed_forward_options(), granule_option(), sweep_output_options()},
      "spec");
  if (!options) {
    return 0;
  }
  const Ranks ranks;
  const auto read = ranks.together([&] { return std::pair(read_spec(*options), read_sweep_options(*options)); });
  if (!read) {
    return 0;
  }
  auto [spec, sweep_options] = *read;
  sweep_options.command = command_line(program_invocation_name, verb, arguments);
  if (spec.engine == "simulator") {
    sweep_options.engine = simulated;
  }
#ifdef ONCHIP_HAS_CUDA
  if (spec.engine == "measure") {  // one at a time, on one GPU
    const Manifest device = current_manifest();
    for (const auto& [name, file] : spec.chips) {
      warn_of_other_chip(file.chip, device);
    }
    sweep_options.device = Json::parse(to_json_text(device));
    sweep_options.device.erase("date");
    sweep_options.engine = [device](const Chip& chip, const Configuration& configuration, const RowProfile& rows) {
      return measured(chip, configuration, rows, device.architecture);
    };
    sweep_options.threads = 1;
    sweep_options.estimates = false;
  }
#endif
  return sweep(spec, sweep_options, ranks) ? 0 : kInterrupted;
}

}  // namespace onchip
