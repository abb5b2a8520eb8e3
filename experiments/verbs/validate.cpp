// SPDX-License-Identifier: Apache-2.0
// onchip validate: every measured configuration predicted with the plan that ran, and the errors, whatever they are.
#include "experiments/command/configuration_rows.hpp"
#include "experiments/command/output.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/measurement/manifest.hpp"
#include "experiments/reports/validation_report.hpp"
#include "experiments/training/answers.hpp"
#include "experiments/validation/accuracy.hpp"
#include "model/answer/feed_forward/asked.hpp"
#include "model/base/error.hpp"
#include "model/base/is_there.hpp"
#include "model/base/parallel.hpp"
#include "model/base/shipped.hpp"
#include "model/base/table.hpp"
#include "model/base/units.hpp"
#include "model/chip/chip.hpp"
#include "model/chip/cost_terms.hpp"
#include "model/plan/plan_text.hpp"
#include "model/training/recurrence_price.hpp"
#include "sim/simulate.hpp"
#include "sim/training/simulate_recurrence.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/measurement/compilation.hpp"
#include "kernels/recurrent/recurrence.hpp"
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {
namespace {

std::vector<std::filesystem::path> shipped_data() {
  const std::filesystem::path directory = shipped_folder("data", "ONCHIP_DATA", ONCHIP_DATA_DIR).path;
  std::vector<std::filesystem::path> files;
  std::error_code problem;
  for (std::filesystem::directory_iterator entry(directory, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    if (const auto file = entry->path() / "validation.csv"; is_there(file)) {
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

// Throws InputError with the row.
double measured_time(const CsvReader& file, std::size_t row, const char* column) {
  const double time = file.number(row, column);
  if (!(time > 0 && std::isfinite(time))) {
    file.fail(row, "column '" + std::string(column) + "': found " + in_quotes(file.text(row, column)) +
                       ": expected a time above 0");
  }
  return time;
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
  const std::vector<CodeComparison> comparisons = compare_code(kernels, manifest, /*trusting=*/false, file);
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
    row.comparison.measured = measured_time(file, i, "step_us");
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

// ---- training steps -------------------------------------------------------------------------------------------------

constexpr std::string_view kKernelRows = "onchip", kCudnnRows = "cudnn";

// How much longer the chosen plan takes than the fastest way that was measured, of each network with several;
// compared as plan_training() does.
std::map<std::string, double> losses_percent(const std::vector<ScoredRow>& rows) {
  std::vector<Choice> choices;
  for (const ScoredRow& row : rows) {
    choices.push_back({row.network, std::to_string(choices.size()), row.comparison.measured,
                       row.comparison.predicted * (row.is_library ? 1 - kLibraryDoubt : 1)});
  }
  return score_choices(choices).losses_percent;
}

Columns<ScoredRow> training_columns(bool ablates) {
  Columns<ScoredRow> columns;
  columns.add("chip", "", "that it was measured on", &ScoredRow::chip, "", In::csv);
  columns.add("network", "", "with its steps and input", &ScoredRow::network);
  add_comparison(columns, "us", "interval_us/");
  add_error(columns);
  columns.add("way", "", "both plans, or the library", &ScoredRow::way);
  if (ablates) {
    add_without(columns, "us");
  }
  return columns;
}

// Whether a file's rows are of training steps, as measure writes them, or tune.
bool has_trainings(const CsvReader& file) {
  return file.has("us") && ((file.has("plan_forward") && file.has("plan_backward")) || file.has("rank"));
}

// Rows of kernels, whose way is both plans, and the fastest of cuDNN's of each network; us per step. Throws InputError
// with the row.
std::vector<ScoredRow> read_trainings(const CsvReader& file, const Chip& chip, std::span<const Ablation> ablations) {
  std::vector<ScoredRow> rows;
  for (std::size_t i = 0; i < file.size(); ++i) {
    if (file.text(i, "us").empty()) {
      continue;
    }
    const AskedTraining asked = read_training_row(file, i);
    const std::optional<TrainingPlan>& tuned = asked.constraints.plan;
    const std::string library = tuned ? std::string(is_on_chip(*tuned) ? kKernelRows : kCudnnRows)
                                      : file.text(i, "library").substr(0, file.text(i, "library").find(' '));
    if (library != kKernelRows && (library != kCudnnRows || !(tuned || file.text(i, "best") == "true"))) {
      continue;
    }
    const Training& training = asked.training;
    ScoredRow row{.chip = chip.name,
                  .network = describe(training.network) + ", " + std::to_string(training.network.steps) +
                             " steps, input " + std::to_string(training.stack.input),
                  .way = std::string(kCudnnRows),
                  .comparison = {},
                  .is_library = library == kCudnnRows};
    const double measured = measured_time(file, i, "us");
    try {
      TrainingPlan plan = tuned.value_or(CudnnTrainingPlan{});
      if (tuned && library == kKernelRows) {
        row.way = to_string(plan);
      } else if (library == kKernelRows) {
        const PassFields& fields = asked.constraints.fields;
        row.way = fields.forward + " | " + fields.backward;
        plan = with_passes(training, fields);
      }
      const PhasePrice priced = predict(chip, training, plan).iteration;
      const double steps = training.network.steps;
      row.comparison = {measured, priced.us / steps, priced.low_us / steps, priced.high_us / steps};
      row.without = predict_without(
          chip, ablations, [&](const Chip& changed) { return predict(changed, training, plan).iteration.us / steps; });
    } catch (const InputError& error) {
      file.fail(i, error.what());
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Of the kernels' rows, of which there is at least one.
Accuracy score(const std::vector<ScoredRow>& rows) {
  return score(comparisons_of(rows, std::not_fn(&ScoredRow::is_library)));
}

Report report(const std::vector<ScoredRow>& rows, std::span<const Ablation> ablations, std::size_t shown_rows) {
  constexpr double kNear = 5;
  if (ablations.size() > 1) {
    return report_worth(rows, ablations);
  }
  const Accuracy own = score(rows);
  ScoreGroups groups = score_groups("way", std::array{kKernelRows, kCudnnRows}, rows,
                                    [](const ScoredRow& row) { return row.is_library ? kCudnnRows : kKernelRows; });
  const std::map<std::string, double> losses = losses_percent(rows);
  const auto near = std::ranges::count_if(losses, [](const auto& loss) { return loss.second <= kNear; });
  Report report;
  report.text = "Time of a training step, predicted against measured:\n\n" + to_aligned(groups.table) +
                "\nKendall's tau of onchip's rows: " + fixed(own.kendall_tau, 3) + "\nThe chosen plan is within " +
                fixed(kNear, 0) + " % of the fastest way that was measured in " + std::to_string(near) + " of " +
                std::to_string(losses.size()) + " networks\n";
  report.json = to_json(own);
  report.json["ways"] = std::move(groups.json);
  report.json["picks"] = Json::array();
  for (const auto& [network, loss] : losses) {
    report.json["picks"].push_back({{"network", network}, {"loss_percent", rounded(loss)}});
    if (loss > kNear) {
      report.text += "  not of " + network + ": " + fixed(loss, 1) + " %\n";
    }
  }
  if (!ablations.empty()) {
    add_ablation(rows, ablations.front(), report);
  }
  const Columns<ScoredRow> columns = training_columns(!ablations.empty());
  add_rows(columns, rows, report);
  add_worst(columns, {"network", "measured_us", "predicted_us", "error_percent", "way"}, rows, shown_rows, report);
  return report;
}

// ---- recurrences of training steps, simulated -----------------------------------------------------------------------

// Both recurrences of a measured step, us per step.
struct RecurrenceRow : ScoredRow {  // of the simulator's times
  std::string pass;
  double predicted_us = 0;  // the analytic model's
};

// Of a file's rows of kernels with forward_us and backward_us. Throws InputError with the row.
std::vector<RecurrenceRow> simulate_recurrences(const CsvReader& file, const Chip& chip,
                                                const SimulationOptions& simulation) {
  std::vector<std::pair<std::size_t, bool>> all;  // rows, forward and backward
  for (std::size_t i = 0; i < file.size(); ++i) {
    for (const bool is_backward : {false, true}) {
      if (file.text(i, "library") == "onchip" && !file.text(i, is_backward ? "backward_us" : "forward_us").empty()) {
        all.emplace_back(i, is_backward);
      }
    }
  }
  std::vector<RecurrenceRow> rows(all.size());
  parallel_for(static_cast<int>(all.size()), simulation.threads, [&](int i) {
    const auto [row, is_backward] = all[static_cast<std::size_t>(i)];
    const AskedTraining asked = read_training_row(file, row);
    if (asked.training.mask) {
      file.fail(row, "the simulator replays recurrences of dense networks");
    }
    const TrainingSize size = size_of(asked.training);
    const double measured = measured_time(file, row, is_backward ? "backward_us" : "forward_us");
    try {
      const RecurrencePlan plan =
          changed(RecurrencePlan{}, is_backward ? asked.constraints.fields.backward : asked.constraints.fields.forward);
      const double us = simulate_recurrence(chip, size, plan, is_backward, simulation).step_us;
      const double half = chip.gather_scatter * us;  // as of the model's recurrences
      rows[static_cast<std::size_t>(i)] = {
          {chip.name, describe(asked.training.network), fields_text(plan), {measured, us, us - half, us + half}},
          is_backward ? "backward" : "forward",
          recurrence_price(chip, size, plan, is_backward).terms.total()};
    } catch (const InputError& error) {
      file.fail(row, error.what());
    }
  });
  return rows;
}

Columns<RecurrenceRow> recurrence_columns() {
  using Row = RecurrenceRow;
  Columns<Row> columns;
  columns.add("chip", "", "that it was measured on", &Row::chip, "", In::csv);
  columns.add("network", "", "that is trained", &Row::network);
  columns.add("pass", "", "forward or backward", &Row::pass);
  add_comparison(columns, "us", nullptr, "simulated");
  columns.add("predicted_us", "us", "by the analytic model", &Row::predicted_us);
  add_error(columns);
  columns.add("plan", "", "that ran", &Row::way);
  return columns;
}

Report report(const std::vector<RecurrenceRow>& rows, std::size_t shown_rows) {
  constexpr double kNear = 10;
  constexpr std::array<std::string_view, 2> kPasses{"forward", "backward"};
  ScoreGroups groups = score_groups("pass", kPasses, rows, &RecurrenceRow::pass);
  std::string near;
  for (const std::string_view pass : kPasses) {
    std::set<std::string> plans, near_plans;
    for (const RecurrenceRow& row : rows) {
      if (row.pass == pass) {
        const std::string plan = row.chip + row.network.substr(0, row.network.rfind(' ')) + row.way;
        plans.insert(plan);
        if (std::abs(row.comparison.error_percent()) <= kNear) {
          near_plans.insert(plan);
        }
      }
    }
    if (!plans.empty()) {
      near += std::string(pass) + ": " + std::to_string(near_plans.size()) + " of " + std::to_string(plans.size()) +
              " plans are within " + fixed(kNear, 0) + " %\n";
    }
  }
  Report report;
  report.text = "Time of a step of a training recurrence, simulated against measured:\n\n" + to_aligned(groups.table) +
                '\n' + near;
  report.json = to_json(score(comparisons_of(rows)));
  const Columns<RecurrenceRow> columns = recurrence_columns();
  add_rows(columns, rows, report);
  report.json["passes"] = std::move(groups.json);
  add_worst(columns, {"network", "pass", "measured_us", "simulated_us", "predicted_us", "error_percent", "plan"}, rows,
            shown_rows, report);
  return report;
}

int validate_trainings(const Options& options, std::span<const std::filesystem::path> files,
                       std::span<const Ablation> ablations, double max_mape, std::size_t shown_rows, Output& output) {
  options.refuse({"machine-code"}, "is of inference; these files are of training steps");
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
    return score(comparisons_of(recurrences)).mape_percent <= max_mape ? 0 : 1;
  }
  if (std::ranges::all_of(rows, &ScoredRow::is_library)) {
    throw InputError(files.front().string() + ": no row of onchip's has a time");
  }
  output.write(report(rows, ablations, shown_rows));
  return score(rows).mape_percent <= max_mape ? 0 : 1;
}

// ---- feed-forward networks ------------------------------------------------------------------------------------------

struct InferenceRow : ScoredRow {  // ms
  int gpus = 1;
};

struct Inferences {
  std::vector<InferenceRow> rows;
  std::vector<std::string> failed;  // without a time, or with wrong categories
  std::size_t left_out = 0;         // of libraries' calls that have no price, or no time
};

// Whether a file's rows are of feed-forward networks.
bool has_inferences(const CsvReader& file) {
  return file.has("network") && file.has("wall_ms");
}

void read_inferences(const CsvReader& file, const ChipFile& chip, std::span<const Ablation> ablations,
                     KnownFeedForward& known, Inferences& inferences,
                     const std::function<void(const std::string&)>& say) {
  const char* plan_column = file.has("plan") ? "plan" : "way";  // of the method of 2020 and the libraries beside it
  for (std::size_t i = 0; i < file.size(); ++i) {
    InferenceRow row{{chip.chip.name, file.text(i, "network"), file.text(i, plan_column), {}}};
    const std::optional<FeedForwardPlan> of_library = plan_of_library_call(row.way);
    row.way = of_library ? to_string(*of_library) : row.way;
    if (!file.has("plan") && (of_library ? file.text(i, "wall_ms").empty() : !row.way.starts_with(StagedPlan::kName))) {
      ++inferences.left_out;
      continue;
    }
    if (file.text(i, "wall_ms").empty() || (file.text(i, "correct") != "true" && !of_library)) {
      inferences.failed.push_back(row.network + " (" + file.file() + ", row " + std::to_string(i + 1) + ")");
      continue;
    }
    const double measured = measured_time(file, i, "wall_ms");
    say(std::to_string(i + 1) + " of " + std::to_string(file.size()) + ": " + row.network);
    try {
      const auto activity = known.activity(row.network, {.images = file.text(i, "images")});
      row.gpus = file.has("gpus") ? static_cast<int>(read_whole(file, i, "gpus")) : 1;
      const Activity share = largest_share(*activity, row.gpus);
      const auto network = known.network(row.network);
      const auto plan = parse_feed_forward_plan(row.way);
      const InferencePrice price = price_plan(chip.chip, *network, share, plan);
      row.without = predict_without(chip.chip, ablations, [&](const Chip& changed) {
        return 1e-3 * price_plan(changed, *network, share, plan).us;
      });
      row.comparison = {measured, 1e-3 * price.us, 1e-3 * price.low_us, 1e-3 * price.high_us};
    } catch (const InputError& error) {
      file.fail(i, error.what());
    }
    inferences.rows.push_back(std::move(row));
  }
}

std::string family_of(const InferenceRow& row) {
  return row.way.substr(0, row.way.find(' '));
}

Columns<InferenceRow> inference_columns(bool ablates) {
  using Row = InferenceRow;
  Columns<Row> columns;
  columns.add("chip", "", "that it was measured on", &Row::chip);
  columns.add("network", "", "as it is asked for", &Row::network);
  columns.add("gpus", "", "that shared the images", &Row::gpus);
  add_comparison(columns, "ms", "interval_ms/");
  add_error(columns);
  add_inside(columns);
  columns.add("plan", "", "that ran", &Row::way);
  if (ablates) {
    add_without(columns, "ms");
  }
  return columns;
}

Report report(const Inferences& inferences, const Accuracy& all, std::span<const Ablation> ablations,
              std::size_t shown_rows) {
  const std::vector<InferenceRow>& rows = inferences.rows;
  if (ablations.size() > 1) {
    return report_worth(scored(rows), ablations);
  }
  std::set<std::string> families;
  std::ranges::transform(rows, std::inserter(families, families.end()), family_of);
  ScoreGroups groups = score_groups("family", families, rows, family_of);
  Report report;
  report.text =
      "Time of an inference, predicted against measured; nothing was fitted to these rows but the prices of "
      "libraries'\n"
      "layers, to h200/spdnn_baselines.csv:\n\n" +
      to_aligned(groups.table);
  report.json = to_json(all);
  report.json["families"] = std::move(groups.json);
  report.json["failed"] = inferences.failed;
  report.json["left_out"] = inferences.left_out;
  const Columns<InferenceRow> columns = inference_columns(!ablations.empty());
  add_rows(columns, rows, report);
  if (!ablations.empty()) {
    add_ablation(scored(rows), ablations.front(), report);
  }
  for (const std::string& failed : inferences.failed) {
    report.text += "no valid measurement: " + failed + '\n';
  }
  if (inferences.left_out > 0) {
    report.text +=
        std::to_string(inferences.left_out) + " rows are of libraries' calls that have no price, or no time.\n";
  }
  add_worst(columns,
            {"network", "gpus", "plan", "measured_ms", "predicted_ms", "low_ms", "high_ms", "error_percent", "inside"},
            rows, shown_rows, report);
  return report;
}

int validate_inferences(const Options& options, std::span<const std::filesystem::path> files,
                        std::span<const Ablation> ablations, double max_mape, std::size_t shown_rows, Output& output) {
  options.refuse({"simulate", "machine-code"}, "is of recurrent networks; these files are of feed-forward ones");
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
  const Accuracy all = score(comparisons_of(inferences.rows));
  output.write(report(inferences, all, ablations, shown_rows));
  return all.mape_percent <= max_mape && inferences.failed.empty() ? 0 : 1;
}

// ---- the verb -------------------------------------------------------------------------------------------------------

std::vector<OptionGroup> validate_options() {
  return {
      option_group(
          "Validation",
          {{"data", "FILE...",
            "Take measured CSV files, of recurrent networks, of feed-forward ones (measure --network) or of training "
            "steps; the option's name may be left out (default: the shipped data of recurrent ones)."},
           {"chip", "NAME|FILE", "Predict for this chip (default: the one that the file's folder is named for)."},
           {"set", "KEY=QUANTITY...", "Change a number of the chip; repeatable."},
           {"simulate", "",
            "Score the simulator instead of the analytic model, for plans that it replays; of training steps the "
            "recurrences."},
           {"without", "TERM...",
            "Leave out a term of the prices ('onchip chips --cost-terms') and score with and without it; repeatable, "
            "then "
            "all of them are left out together. 'all': instead a line for each term. With --simulate a part of the "
            "simulator: banks, issue, scoreboard, fetch, exchange or skew."},
           {"machine-code", "",
            "Compile every row's plan and compare the machine code with what ran: a row is stale if that differs, "
            "whatever "
            "became of the source's words. Exit with 1 if any does."},
           {"max-mape", "PERCENT", "Exit with 1 if a mean absolute percentage error, in-sample or held out, is larger.",
            "10"},
           {"rows", "N", "Show this many of the worst rows in the table; csv and json have all.", "20"}}),
      simulator_options(/*has_without=*/false), output_options()};
}

int run_validate(const Options& options) {
  const double max_mape = parse_quantity(options.text("max-mape"), Dimension::count);
  const auto shown_rows = static_cast<std::size_t>(options.whole("rows", 0, 1000000));
  Output output(options);
  const std::vector<std::string> given = options.list("data");
  std::vector<std::filesystem::path> files(given.begin(), given.end());
  if (files.empty()) {
    files = shipped_data();
  }
  ValidationData data;
  data.compares_code = options.flag("machine-code");
  if (!options.flag("simulate")) {
    data.ablations = read_ablations(options.list("without"));
  }
  if (std::ranges::any_of(files, [](const auto& file) { return has_inferences(CsvReader(file)); })) {
    return validate_inferences(options, files, data.ablations, max_mape, shown_rows, output);
  }
  if (std::ranges::any_of(files, [](const auto& file) { return has_trainings(CsvReader(file)); })) {
    return validate_trainings(options, files, data.ablations, max_mape, shown_rows, output);
  }
#ifndef ONCHIP_HAS_CUDA
  if (data.compares_code) {
    throw InputError("built without CUDA: --machine-code needs a CUDA toolkit when onchip is configured");
  }
#endif
  for (const std::filesystem::path& file : files) {
    read_file(options, file, data);
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

}  // namespace

const Verb kValidateVerb{"validate",
                         "Score the predictions against measured step times.",
                         "onchip validate --format csv -o parity.csv",
                         validate_options,
                         run_validate,
                         "data"};

}  // namespace onchip
