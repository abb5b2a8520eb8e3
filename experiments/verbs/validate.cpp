// SPDX-License-Identifier: Apache-2.0
// onchip validate: every measured configuration predicted with the plan that ran, and the errors, whatever they are.
#include "experiments/command/configuration_rows.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/feed_forward/validation.hpp"
#include "experiments/measurement/manifest.hpp"
#include "experiments/reports/simulation_report.hpp"
#include "experiments/reports/validation_report.hpp"
#include "experiments/training/simulate.hpp"
#include "experiments/training/validation.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/parallel.hpp"
#include "model/base/shipped.hpp"
#include "model/base/units.hpp"
#include "model/chip/cost_groups.hpp"
#include "sim/simulate.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/measurement/compilation.hpp"
#include "kernels/recurrent/persistent_kernel.hpp"
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <mutex>
#include <span>
#include <string>
#include <utility>

namespace onchip {
namespace {

namespace po = boost::program_options;

std::vector<std::filesystem::path> shipped_data() {
  const std::filesystem::path directory = shipped_folder("data", "ONCHIP_DATA", ONCHIP_DATA_DIR).path;
  std::vector<std::filesystem::path> files;
  std::error_code problem;
  for (std::filesystem::directory_iterator entry(directory, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    if (const auto file = entry->path() / "validation.csv"; std::filesystem::exists(file)) {
      files.push_back(file);
    }
  }
  if (files.empty()) {
    throw InputError(directory.string() +
                     ": no measured data (GPU/validation.csv) here; ONCHIP_DATA can name another "
                     "directory, 'onchip measure --configurations' makes the data");
  }
  std::sort(files.begin(), files.end());
  return files;
}

// --chip, or the chip that the file's folder is named for.
ChipFile chip_of(const Options& options, const std::filesystem::path& file) {
  if (options.given("chip")) {
    return read_chip(options);
  }
  ChipFile chip;
  try {
    chip = find_chip(std::filesystem::absolute(file).parent_path().filename().string());
  } catch (const InputError& error) {
    throw InputError(file.string() +
                     ": on which chip was this measured? expected --chip, or a folder named for a chip (" +
                     error.what() + ")");
  }
  return with_changes(std::move(chip), options);
}

#ifdef ONCHIP_HAS_CUDA
// The source only suggests that a row is stale; the machine code decides.
void compare_machine_code(std::span<ValidationRow> rows, const std::filesystem::path& file, const Manifest& manifest) {
  std::vector<MeasuredKernel> kernels;
  std::vector<ValidationRow*> of;
  for (ValidationRow& row : rows) {
    if (!row.is_library) {
      const Configuration& configuration = row.configuration;
      kernels.push_back({configuration.network, *configuration.plan, row.fingerprint, row.code_fingerprint});
      of.push_back(&row);
    }
  }
  Progress progress;
  const auto show = [&](std::size_t done, std::size_t all) {
    progress.show(file.filename().string() + ": compiling " + std::to_string(done) + " of " + std::to_string(all));
  };
  const std::vector<CodeComparison> comparisons = compare_code(kernels, manifest, /*trusting=*/false, show);
  for (std::size_t i = 0; i < of.size(); ++i) {
    const CodeAnswer answer = comparisons[i].answer;
    of[i]->machine_code = answer;
    if (answer == CodeAnswer::same || answer == CodeAnswer::differs) {
      of[i]->stale = answer == CodeAnswer::differs;
    }
  }
}

// A row is stale if its kernel would now be another: its source or its plan's constants changed.
void find_stale(ValidationData& data, std::size_t first, const std::filesystem::path& file) {
  std::error_code ignored;
  const auto beside = manifest_path(file);
  if (!std::filesystem::exists(beside, ignored)) {
    data.unknown.push_back(file.string() + ": no manifest beside it");
    return;
  }
  const Manifest manifest = read_manifest(beside);
  for (std::size_t i = first; i < data.rows.size(); ++i) {
    ValidationRow& row = data.rows[i];
    const Configuration& configuration = row.configuration;
    row.stale = !row.is_library &&
                row.fingerprint !=
                    fingerprint(compile_request(configuration.network, *configuration.plan, manifest.architecture));
  }
  if (data.compares_code) {
    compare_machine_code(std::span(data.rows).subspan(first), file, manifest);
  }
}
#else
void find_stale(ValidationData& data, std::size_t, const std::filesystem::path& file) {
  data.unknown.push_back(file.string() + ": built without CUDA");
}
#endif

// The simulator's times instead of the analytic model's.
void simulate_rows(const Options& options, const Chip& chip, std::span<ValidationRow> rows) {
  SimulationOptions simulation = read_simulation(options);
  const int threads = std::exchange(simulation.threads, 1);
  Progress progress;
  std::mutex mutex;
  std::size_t done = 0;
  parallel_for(static_cast<int>(rows.size()), threads, [&](int i) {
    ValidationRow& row = rows[static_cast<std::size_t>(i)];
    const Configuration& configuration = row.configuration;
    Layout layout = make_layout(configuration.network, *configuration.plan, *recurrent_matrix(configuration));
    const Simulation result = simulate(chip, *plan_trace(chip, std::move(layout)), simulation);
    row.comparison = {row.comparison.measured, result.step_us, result.low_us, result.high_us};
    const std::scoped_lock lock(mutex);
    progress.show(std::to_string(++done) + " of " + std::to_string(rows.size()) + " simulated");
  });
}

void read_file(const Options& options, const std::filesystem::path& path, ValidationData& data) {
  const CsvReader file(path);
  const ChipFile chip = chip_of(options, path);
  const std::size_t first = data.rows.size();
  const bool in_sample = is_in_sample(std::filesystem::absolute(path).lexically_normal().generic_string());
  for (std::size_t i = 0; i < file.size(); ++i) {
    ValidationRow row;
    row.file = file.file();
    row.configuration = read_configuration_row(file, i);
    row.fingerprint = file.text(i, "fingerprint");
    row.code_fingerprint = file.has("code_fingerprint") ? file.text(i, "code_fingerprint") : "";
    const Recurrent& network = row.configuration.network;
    if (file.has("note") && !file.text(i, "note").empty() && file.text(i, "plan").empty()) {
      ++data.left_out;
      continue;
    }
    if (file.text(i, "step_us").empty()) {
      data.failed.push_back(describe(network) + " (" + file.file() + ", row " + std::to_string(i + 1) + ")");
      continue;
    }
    row.comparison.measured = file.number(i, "step_us");
    if (!(row.comparison.measured > 0 && std::isfinite(row.comparison.measured))) {
      file.fail(i, "column 'step_us': found " + in_quotes(file.text(i, "step_us")) + ": expected a time above 0");
    }
    if (!row.configuration.plan) {
      file.fail(i, "no plan: expected the one that was measured");
    }
    try {
      check_plan(network, *row.configuration.plan);
    } catch (const InputError& error) {
      file.fail(i, error.what());
    }
    if (options.flag("simulate") && !is_replayed(*row.configuration.plan)) {
      ++data.not_simulated;
      continue;
    }
    const Prediction prediction = predict(chip.chip, network, *row.configuration.plan);
    row.chip = chip.chip.name;
    row.network = describe(network);
    row.way = to_string(*row.configuration.plan);
    row.is_library = !is_on_chip(*row.configuration.plan);
    row.comparison = {row.comparison.measured, prediction.step_us, prediction.low_us, prediction.high_us};
    row.in_sample = in_sample;
    row.without = predict_without(chip.chip, data.ablations, [&](const Chip& changed) {
      return predict(changed, network, *row.configuration.plan).step_us;
    });
    data.rows.push_back(std::move(row));
  }
  if (options.flag("simulate")) {
    simulate_rows(options, chip.chip, std::span(data.rows).subspan(first));
  }
  find_stale(data, first, path);
}

int validate_trainings(const Options& options, std::span<const std::filesystem::path> files,
                       std::span<const Ablation> ablations, double max_mape, std::size_t shown_rows, Output& output) {
  if (options.given("machine-code")) {
    throw InputError("--machine-code is of inference; these files are of training steps");
  }
  std::vector<ScoredRow> rows;
  std::vector<RecurrenceRow> recurrences;
  for (const std::filesystem::path& path : files) {
    const CsvReader file(path);
    if (!has_trainings(file)) {
      throw InputError(path.string() + ": rows of inference beside files of training steps; validate them apart");
    }
    const Chip chip = chip_of(options, path).chip;
    if (options.flag("simulate")) {
      std::ranges::move(simulate_recurrences(file, chip, read_simulation(options)), std::back_inserter(recurrences));
    } else {
      std::ranges::move(read_trainings(file, chip, ablations), std::back_inserter(rows));
    }
  }
  if (!recurrences.empty()) {
    output.write(report(recurrences, shown_rows));
    return score(recurrences).mape_percent <= max_mape ? 0 : 1;
  }
  if (std::ranges::all_of(rows, &ScoredRow::is_library)) {
    throw InputError(files.front().string() + ": no row of onchip's has a time");
  }
  output.write(report(rows, ablations, shown_rows));
  return score(rows).mape_percent <= max_mape ? 0 : 1;
}

int validate_inferences(const Options& options, std::span<const std::filesystem::path> files,
                        std::span<const Ablation> ablations, double max_mape, std::size_t shown_rows, Output& output) {
  for (const char* what : {"simulate", "machine-code"}) {
    if (options.given(what)) {
      throw InputError("--" + std::string(what) + " is of recurrent networks; these files are of feed-forward ones");
    }
  }
  Inferences inferences;
  KnownFeedForward known;
  Progress progress;
  for (const std::filesystem::path& path : files) {
    const CsvReader file(path);
    if (!has_inferences(file)) {
      throw InputError(path.string() +
                       ": rows of recurrent networks beside files of feed-forward ones; validate them apart");
    }
    read_inferences(file, chip_of(options, path), ablations, known, inferences,
                    [&](const std::string& what) { progress.show(what); });
  }
  progress.clear();
  if (inferences.rows.empty()) {
    throw InputError(files.front().string() + ": no row has a measured time and a plan with a price");
  }
  const Accuracy all = score(comparisons_of(inferences.rows, [](const InferenceRow&) { return true; }));
  output.write(report(inferences, all, ablations, shown_rows));
  return all.mape_percent <= max_mape && inferences.failed.empty() ? 0 : 1;
}

// The verb's own --without has the simulator's as a case.
OptionGroup simulator_options_but_without() {
  const OptionGroup all = simulator_options();
  OptionGroup group = option_group("Simulator");
  for (const auto& option : all.options()) {
    if (option->long_name() != "without") {
      group.add(option);
    }
  }
  return group;
}

}  // namespace

int run_validate(const Verb& verb, const std::vector<std::string>& arguments) {
  OptionGroup group = option_group("Validation");
  // clang-format off
  group.add_options()
      ("data", po::value<std::vector<std::string>>()->value_name("FILE"),
       "Take measured CSV files, of recurrent networks, of feed-forward ones (measure --network) or of training steps; the "
       "option's name may be left out (default: the shipped data of recurrent ones).")
      ("chip", po::value<std::string>()->value_name("NAME|FILE"),
       "Predict for this chip (default: the one that the file's folder is named for).")
      ("set", po::value<std::vector<std::string>>()->composing()->value_name("KEY=QUANTITY"),
       "Change a number of the chip; repeatable.")
      ("simulate", "Score the simulator instead of the analytic model, for plans that it replays; of training steps the "
       "recurrences.")
      ("without", po::value<std::vector<std::string>>()->composing()->value_name("TERM"),
       "Leave out a term of the prices ('onchip chips --cost-terms') and score with and without it; repeatable, then all "
       "of them are left out together. 'all': instead a line for each term. With --simulate a part of the simulator: "
       "banks, issue, scoreboard, fetch, exchange or skew.")
      ("machine-code",
       "Compile every row's plan and compare the machine code with what ran: a row is stale if that differs, whatever "
       "became of the source's words. Exit with 1 if any does.")
      ("max-mape", po::value<std::string>()->value_name("PERCENT")->default_value("10"),
       "Exit with 1 if a mean absolute percentage error, in-sample or held out, is larger.")
      ("rows", po::value<std::string>()->value_name("N")->default_value("20"),
       "Show this many of the worst rows in the table; csv and json have all.");
  // clang-format on
  const auto options =
      parse_options(verb, arguments, {group, simulator_options_but_without(), output_options()}, "data");
  if (!options) {
    return 0;
  }
  const double max_mape = parse_quantity(options->text("max-mape"), Dimension::count);
  const auto shown_rows = static_cast<std::size_t>(options->whole("rows", 0, 1000000));
  Output output(*options);
  std::vector<std::filesystem::path> files;
  for (const std::string& file : options->list("data")) {
    files.emplace_back(file);
  }
  if (files.empty()) {
    files = shipped_data();
  }
  ValidationData data;
  data.compares_code = options->flag("machine-code");
  if (!options->flag("simulate")) {
    data.ablations = read_ablations(options->list("without"));
  }
  if (std::ranges::any_of(files, [](const auto& file) { return has_inferences(CsvReader(file)); })) {
    return validate_inferences(*options, files, data.ablations, max_mape, shown_rows, output);
  }
  if (std::ranges::any_of(files, [](const auto& file) { return has_trainings(CsvReader(file)); })) {
    return validate_trainings(*options, files, data.ablations, max_mape, shown_rows, output);
  }
#ifndef ONCHIP_HAS_CUDA
  if (data.compares_code) {
    throw InputError("built without CUDA: --machine-code needs a CUDA toolkit when onchip is configured");
  }
#endif
  for (const std::filesystem::path& file : files) {
    read_file(*options, file, data);
  }
  if (data.rows.empty()) {
    throw InputError(files.front().string() + ": no row has a measured time");
  }
  const Scores scores = score_rows(data.rows);
  output.write(report(data, scores, shown_rows));
  const bool any_differs =
      std::ranges::any_of(data.rows, [](const ValidationRow& row) { return row.machine_code == CodeAnswer::differs; });
  const bool is_good = std::ranges::all_of(std::array{scores.in_sample, scores.held_out}, [&](const auto& accuracy) {
    return !accuracy || accuracy->mape_percent <= max_mape;
  });
  return is_good && data.failed.empty() && !any_differs ? 0 : 1;
}

}  // namespace onchip
