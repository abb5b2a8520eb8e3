// SPDX-License-Identifier: Apache-2.0
// onchip validate: every measured configuration predicted with the plan that ran, and the errors, whatever they are.
#include "experiments/accuracy.hpp"
#include "experiments/manifest.hpp"
#include "experiments/progress.hpp"
#include "experiments/published.hpp"
#include "experiments/report.hpp"
#include "experiments/verbs.hpp"
#include "model/error.hpp"
#include "model/input_file.hpp"
#include "model/parallel.hpp"
#include "model/units.hpp"
#include "sim/simulate.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/compilation.hpp"
#include "kernels/persistent_kernel.hpp"
#endif

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace onchip {
namespace {

namespace po = boost::program_options;

struct Row {
  std::string file, chip;
  Configuration configuration;
  Comparison comparison;    // us per step
  std::string fingerprint;  // of the kernel that ran
  bool stale = false;
};

struct Data {
  std::vector<Row> rows;             // timed
  std::size_t left_out = 0;          // without a plan: a family that cannot run the network; the row says why
  std::size_t not_simulated = 0;     // of plans that the simulator does not replay
  std::vector<std::string> failed;   // measured, but without a time
  std::vector<std::string> unknown;  // files of which nobody can say here whether they are stale, with the reason
};

std::vector<std::filesystem::path> shipped_data() {
  const char* chosen = std::getenv("ONCHIP_DATA");
  const std::filesystem::path directory = chosen && *chosen ? chosen : ONCHIP_DATA_DIR;
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
  for (const std::string& assignment : options.list("set")) {
    set_chip_key(chip, assignment);
  }
  return chip;
}

#ifdef ONCHIP_HAS_CUDA
// A row is stale if its kernel would now be another: its source or its plan's constants changed.
void find_stale(Data& data, std::size_t first, const std::filesystem::path& file) {
  std::error_code ignored;
  const auto beside = manifest_path(file);
  if (!std::filesystem::exists(beside, ignored)) {
    data.unknown.push_back(file.string() + ": no manifest beside it");
    return;
  }
  const Manifest manifest = read_manifest(beside);
  for (std::size_t i = first; i < data.rows.size(); ++i) {
    Row& row = data.rows[i];
    const Configuration& configuration = row.configuration;
    if (is_library(configuration.plan->family)) {
      continue;
    }
    row.stale = row.fingerprint !=
                fingerprint(compile_request(configuration.network, *configuration.plan, manifest.architecture));
  }
}
#else
void find_stale(Data& data, std::size_t, const std::filesystem::path& file) {
  data.unknown.push_back(file.string() + ": built without CUDA");
}
#endif

// The simulator's times instead of the analytic model's.
void simulate_rows(const Options& options, const Chip& chip, std::span<Row> rows) {
  SimulationOptions simulation = read_simulation(options);
  const int threads = std::exchange(simulation.threads, 1);
  Progress progress;
  std::mutex mutex;
  std::size_t done = 0;
  parallel_for(static_cast<int>(rows.size()), threads, [&](int i) {
    Row& row = rows[static_cast<std::size_t>(i)];
    const Configuration& configuration = row.configuration;
    Layout layout = make_layout(configuration.network, *configuration.plan, *recurrent_matrix(configuration));
    const Simulation result = simulate(chip, plan_trace(chip, std::move(layout)), simulation);
    row.comparison.predicted = result.step_us;
    row.comparison.low = result.low_us;
    row.comparison.high = result.high_us;
    const std::scoped_lock lock(mutex);
    progress.show(std::to_string(++done) + " of " + std::to_string(rows.size()) + " simulated");
  });
}

void read_file(const Options& options, const std::filesystem::path& path, Data& data) {
  const CsvReader file(path);
  const ChipFile chip = chip_of(options, path);
  const std::size_t first = data.rows.size();
  for (std::size_t i = 0; i < file.size(); ++i) {
    Row row{file.file(), chip.chip.name, read_configuration_row(file, i), {}, file.text(i, "fingerprint"), false};
    const Network& network = row.configuration.network;
    if (file.has("note") && file.text(i, "plan").empty()) {
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
    const Plan& plan = *row.configuration.plan;
    if (options.flag("simulate") && plan.family != Family::sparse_persistent) {
      ++data.not_simulated;
      continue;
    }
    const Prediction prediction = predict(chip.chip, network, *row.configuration.plan);
    row.comparison.predicted = prediction.step_us;
    row.comparison.low = prediction.low_us;
    row.comparison.high = prediction.high_us;
    data.rows.push_back(std::move(row));
  }
  if (options.flag("simulate")) {
    simulate_rows(options, chip.chip, std::span(data.rows).subspan(first));
  }
  find_stale(data, first, path);
}

bool is_kernel(const Row& row) {
  return !is_library(row.configuration.plan->family);
}

std::vector<Comparison> comparisons_of(const Data& data, const std::function<bool(const Row&)>& wanted) {
  std::vector<Comparison> comparisons;
  for (const Row& row : data.rows) {
    if (wanted(row)) {
      comparisons.push_back(row.comparison);
    }
  }
  return comparisons;
}

// The rows' scores, group by group: those of a chip, or of a family.
struct Groups {
  explicit Groups(std::string_view what)
      : key(what), table{{key, "points", "MAPE %", "max %", "bias", "coverage %"}, {}} {}

  void add(std::string_view name, const std::vector<Comparison>& comparisons) {
    if (comparisons.empty()) {
      return;
    }
    const Accuracy accuracy = score(comparisons);
    json.push_back({{key, name},
                    {"points", accuracy.points},
                    {"mape_percent", rounded(accuracy.mape_percent)},
                    {"max_percent", rounded(accuracy.max_percent)},
                    {"bias", rounded(accuracy.bias)},
                    {"coverage_percent", rounded(accuracy.coverage_percent)}});
    table.rows.push_back({std::string(name), std::to_string(accuracy.points), fixed(accuracy.mape_percent, 1),
                          fixed(accuracy.max_percent, 1), fixed(accuracy.bias, 3),
                          fixed(accuracy.coverage_percent, 0)});
  }

  std::string key;
  Table table;
  Json json = Json::array();
};

// Of each chip, where rows are of several.
void add_chips(const Data& data, Report& report) {
  std::set<std::string> chips;
  for (const Row& row : data.rows) {
    chips.insert(row.chip);
  }
  Groups groups("chip");
  for (const std::string& chip : chips) {
    groups.add(chip, comparisons_of(data, [&](const Row& row) { return row.chip == chip && is_kernel(row); }));
  }
  if (groups.table.rows.size() > 1) {
    report.text += "\nBy chip:\n\n" + to_aligned(groups.table);
  }
  report.json["chips"] = std::move(groups.json);
}

// Of each family, where there are several, and of the choice between them where networks were measured with several.
void add_families(const Data& data, Report& report) {
  Groups groups("family");
  for (std::size_t i = 0; i < kFamilyNames.size(); ++i) {
    const auto family = static_cast<Family>(i);
    groups.add(name(family),
               comparisons_of(data, [&](const Row& row) { return row.configuration.plan->family == family; }));
  }
  std::vector<Choice> choices;
  for (const Row& row : data.rows) {
    std::string of = row.chip;
    for (const std::string& cell : configuration_cells(row.configuration)) {
      of += ' ' + cell;
    }
    choices.push_back(
        {of, std::string(name(row.configuration.plan->family)), row.comparison.measured, row.comparison.predicted});
  }
  const Picks picks = score_picks(choices);
  report.json["families"] = std::move(groups.json);
  if (groups.table.rows.size() > 1) {
    report.text +=
        "\nBy family" +
        std::string(std::ranges::all_of(data.rows, is_kernel) ? "" : "; the libraries' are not in the sum above") +
        ":\n\n" + to_aligned(groups.table);
  }
  if (picks.choices > 0) {
    report.json["picks"] = {{"networks", picks.choices},
                            {"best", picks.best},
                            {"best_percent", rounded(picks.best_percent())},
                            {"worst_loss_percent", rounded(picks.worst_loss_percent)},
                            {"worst", picks.worst}};
    report.text += "\nThe pick is the measured best of " + std::to_string(picks.best) + " in " +
                   std::to_string(picks.choices) + " networks (" + fixed(picks.best_percent(), 1) + " %)";
    report.text += picks.worst.empty() ? ".\n"
                                       : "; at worst it takes " + fixed(picks.worst_loss_percent, 1) +
                                             " % longer than the best: " + picks.worst + ".\n";
  }
  if (data.left_out > 0) {
    report.json["left_out"] = data.left_out;
    report.text += std::to_string(data.left_out) + " rows are of families that cannot run the network.\n";
  }
}

Report report(const Data& data, const Accuracy& accuracy, const std::vector<PublishedFigure>& history,
              std::size_t shown_rows) {
  const auto stale = static_cast<std::size_t>(std::ranges::count(data.rows, true, &Row::stale));
  Report report;
  report.json = {{"points", accuracy.points},
                 {"mape_percent", rounded(accuracy.mape_percent)},
                 {"median_ape_percent", rounded(accuracy.median_ape_percent)},
                 {"p90_percent", rounded(accuracy.p90_percent)},
                 {"max_percent", rounded(accuracy.max_percent)},
                 {"bias", rounded(accuracy.bias)},
                 {"kendall_tau", rounded(accuracy.kendall_tau)},
                 {"coverage_percent", rounded(accuracy.coverage_percent)},
                 {"stale", stale},
                 {"stale_unknown", data.unknown},
                 {"failed", data.failed},
                 {"rows", Json::array()},
                 {"history", to_json(history)}};
  report.csv.columns = configuration_columns();
  report.csv.columns.insert(report.csv.columns.begin(), "chip");
  for (const char* column :
       {"plan", "measured_us", "predicted_us", "low_us", "high_us", "error_percent", "inside", "stale"}) {
    report.csv.columns.emplace_back(column);
  }
  std::vector<const Row*> worst;
  for (const Row& row : data.rows) {
    const Comparison& comparison = row.comparison;
    const std::string plan = to_string(*row.configuration.plan);
    Json json = to_json(row.configuration.network);
    json["chip"] = row.chip;
    json["mask"] = mask_name(row.configuration);
    json["seed"] = row.configuration.seed;
    report.json["rows"].push_back({{"configuration", std::move(json)},
                                   {"plan", plan},
                                   {"measured_us", rounded(comparison.measured)},
                                   {"predicted_us", rounded(comparison.predicted)},
                                   {"low_us", rounded(comparison.low)},
                                   {"high_us", rounded(comparison.high)},
                                   {"error_percent", rounded(comparison.error_percent())},
                                   {"inside", comparison.inside()},
                                   {"stale", row.stale}});
    std::vector<std::string> cells = configuration_cells(row.configuration);
    cells.insert(cells.begin(), row.chip);
    cells.insert(cells.end(),
                 {plan, significant(comparison.measured, 6), significant(comparison.predicted, 6),
                  significant(comparison.low, 6), significant(comparison.high, 6),
                  significant(comparison.error_percent(), 4), comparison.inside() ? "1" : "0", row.stale ? "1" : "0"});
    report.csv.rows.push_back(std::move(cells));
    worst.push_back(&row);
  }
  std::ranges::stable_sort(worst, std::ranges::greater(),
                           [](const Row* row) { return std::abs(row->comparison.error_percent()); });

  const Table summary{
      {"points", "MAPE %", "median %", "p90 %", "max %", "bias", "Kendall tau", "coverage %"},
      {{std::to_string(accuracy.points), fixed(accuracy.mape_percent, 1), fixed(accuracy.median_ape_percent, 1),
        fixed(accuracy.p90_percent, 1), fixed(accuracy.max_percent, 1), fixed(accuracy.bias, 3),
        fixed(accuracy.kendall_tau, 3), fixed(accuracy.coverage_percent, 0)}}};
  report.text = "Step time, predicted against measured:\n\n" + to_aligned(summary);
  add_chips(data, report);
  add_families(data, report);
  if (data.not_simulated > 0) {
    report.json["not_simulated"] = data.not_simulated;
    report.text += std::to_string(data.not_simulated) +
                   " rows are of dense kernels and libraries, which the simulator does not replay.\n";
  }
  for (const std::string& failed : data.failed) {
    report.text += "no valid measurement: " + failed + '\n';
  }
  if (stale > 0) {
    report.text += std::to_string(stale) + " rows are stale: their kernel has changed since they were measured\n";
  }
  for (const std::string& unknown : data.unknown) {
    report.text += "whether rows are stale is unknown: " + unknown + '\n';
  }
  report.text += "\nPublished figures, to which nothing was fitted:\n\n" + to_text(history);
  Table rows{{"configuration", "mask", "measured us", "predicted us", "low", "high", "error %", "inside", ""}, {}};
  for (const Row* row : worst) {
    if (rows.rows.size() == shown_rows) {
      break;
    }
    const Comparison& comparison = row->comparison;
    rows.rows.push_back({describe(row->configuration.network) + " on " + row->chip,
                         std::string(mask_name(row->configuration)), fixed(comparison.measured, 3),
                         fixed(comparison.predicted, 3), fixed(comparison.low, 3), fixed(comparison.high, 3),
                         fixed(comparison.error_percent(), 1), comparison.inside() ? "yes" : "no",
                         row->stale ? "stale" : ""});
  }
  report.text += "\nWorst first, " + std::to_string(rows.rows.size()) + " of " + std::to_string(data.rows.size()) +
                 ":\n\n" + to_aligned(rows);
  return report;
}

}  // namespace

int run_validate(const Verb& verb, const std::vector<std::string>& arguments) {
  OptionGroup group = option_group("Validation");
  // clang-format off
  group.add_options()
      ("data", po::value<std::vector<std::string>>()->value_name("FILE"),
       "Take measured CSV files; the option's name may be left out (default: the shipped data).")
      ("chip", po::value<std::string>()->value_name("NAME|FILE"),
       "Predict for this chip (default: the one that the file's folder is named for).")
      ("set", po::value<std::vector<std::string>>()->composing()->value_name("KEY=QUANTITY"),
       "Change a number of the chip; repeatable.")
      ("simulate", "Score the simulator instead of the analytic model, for the sparse kernels.")
      ("max-mape", po::value<std::string>()->value_name("PERCENT")->default_value("10"),
       "Exit with 1 if the mean absolute percentage error is larger.")
      ("rows", po::value<std::string>()->value_name("N")->default_value("20"),
       "Show this many of the worst rows in the table; csv and json have all.");
  // clang-format on
  const auto options = parse_options(verb, arguments, {group, simulator_options(), output_options()}, "data");
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
  Data data;
  for (const std::filesystem::path& file : files) {
    read_file(*options, file, data);
  }
  if (data.rows.empty()) {
    throw InputError(files.front().string() + ": no row has a measured time");
  }
  const bool any_kernel = std::ranges::any_of(data.rows, is_kernel);
  const Accuracy accuracy = score(comparisons_of(data, [&](const Row& row) { return !any_kernel || is_kernel(row); }));
  output.write(report(data, accuracy, published_figures(), shown_rows));
  return accuracy.mape_percent <= max_mape && data.failed.empty() ? 0 : 1;
}

}  // namespace onchip
