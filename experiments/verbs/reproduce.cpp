// SPDX-License-Identifier: Apache-2.0
// onchip reproduce: claims of papers beside what the model says and what was measured.
#include "experiments/command/configuration_rows.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/reports/replication_report.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"

#include <algorithm>
#include <array>
#include <iostream>
#include <optional>

namespace onchip {
namespace {

namespace po = boost::program_options;

// What follows the verb: all recipes, or those that are named.
std::vector<Recipe> chosen(std::vector<Recipe> recipes, const std::vector<std::string>& names) {
  if (names == std::vector<std::string>{"all"} || names == std::vector<std::string>{"list"}) {
    return recipes;
  }
  std::vector<Recipe> of;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(recipes, name, &Recipe::name);
    if (found == recipes.end()) {
      std::vector<std::string_view> known{"all", "list"};
      std::ranges::transform(recipes, std::back_inserter(known), &Recipe::name);
      throw InputError("no recipe " + in_quotes(name) + did_you_mean(name, known) +
                       "; 'onchip reproduce list' has all");
    }
    of.push_back(*found);
  }
  return of;
}

// Measures the recipes' rows anew, as `measure --configurations` does: kernels with the plans of the rows, then all
// families at the sizes at which libraries were timed.
Renewed measure_anew(const Options& options, std::span<const Recipe> recipes, MeasuredRows& measured,
                     const std::filesystem::path& folder) {
  std::vector<std::string> columns = configuration_columns();
  columns.push_back("plan");
  std::array<Table, 2> asked{Table{columns, {}}, Table{columns, {}}};
  for (const MeasuredRow& row : rows_of(recipes, measured)) {
    if (is_stale(row).value_or(false)) {
      std::cerr << "stale until now: " << describe(row) << '\n';
    }
    Configuration configuration;
    configuration.network = row.network;
    configuration.seed = row.seed;
    std::vector<std::string> cells = configuration_cells(configuration);
    cells.push_back(row.is_library ? "" : to_string(row.plan));
    auto& rows = asked[row.is_library].rows;
    if (std::ranges::find(rows, cells) == rows.end()) {
      rows.push_back(cells);
    }
  }
  std::filesystem::create_directories(folder);
  Renewed renewed{options.text("chip"), {}};
  const Verb& measure = *std::ranges::find(kVerbs, "measure", &Verb::name);
  constexpr std::array kNames{"kernels", "families"};
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].rows.empty()) {
      continue;
    }
    const auto of = [&](const char* what) { return (folder / (std::string(kNames[i]) + what)).string(); };
    OutputFile configurations(of("_configurations.csv"));
    configurations.write(to_csv(asked[i]));
    configurations.commit();
    std::vector<std::string> arguments{"--configurations", of("_configurations.csv"), "--chip", renewed.chip, "-o",
                                       of(".csv")};
    if (i == 1) {
      arguments.insert(arguments.end(), {"--plan", "all"});
    }
    measure.run(measure, arguments);
    renewed.files.emplace_back(of(".csv"));
  }
  return renewed;
}

}  // namespace

int run_reproduce(const Verb& verb, const std::vector<std::string>& arguments) {
  OptionGroup group = option_group("Replication");
  // clang-format off
  group.add_options()
      ("claim", po::value<std::vector<std::string>>()->value_name("NAME"),
       "Reproduce these claims; 'list' lists them, 'all' takes all. The option's name may be left out.")
      ("recipes", text_option("FOLDER"), "Take the recipes of this folder (default: the shipped ones).")
      ("measure", text_option("FOLDER"),
       "Measure the rows that the claims take on this machine's GPU, write them into the folder, and answer by them.")
      ("rows", po::value<std::vector<std::string>>()->composing()->value_name("FILE"),
       "Answer by these measured rows instead of the recipes', such as those that --measure wrote; repeatable.")
      ("chip", text_option("NAME")->default_value("h200"), "The chip of --measure or --rows.")
      ("terms",
       "Say instead which claims come out otherwise when a cost term of the model ('onchip chips --cost-terms') is 20 % "
       "larger or smaller.")
      ("page", "Print the page docs/replication.md.");
  // clang-format on
  const auto options = parse_options(verb, arguments, {group, output_options()}, "claim");
  if (!options) {
    return 0;
  }
  const std::vector<std::string> names = options->list("claim");
  if (names.empty()) {
    throw InputError("expected 'list', 'all' or the name of a claim");
  }
  if (options->flag("page") && options->given("format")) {
    throw InputError("--page contradicts --format: it is Markdown");
  }
  if (options->given("measure") && options->given("rows")) {
    throw InputError("--measure contradicts --rows: both say where measured values come from");
  }
  const std::vector<Recipe> recipes = chosen(
      read_recipes(options->given("recipes") ? std::filesystem::path(options->text("recipes")) : shipped_recipes()),
      names);
  Output output(*options);
  if (names.front() == "list") {
    output.write(report_recipes(recipes));
    return 0;
  }
  MeasuredRows measured;
  Progress progress;
  if (options->flag("terms")) {
    output.write(report_term_effects(find_term_effects(recipes, measured, [&](std::size_t done) {
      progress.show(std::to_string(done) + " of " + std::to_string(2 * kCostTerms.size()) + " changes");
    })));
    return 0;
  }
  std::optional<Renewed> renewed;
  if (options->given("measure")) {
    renewed = measure_anew(*options, recipes, measured, options->text("measure"));
  } else if (options->given("rows")) {
    const std::vector<std::string> files = options->list("rows");
    renewed = Renewed{options->text("chip"), {files.begin(), files.end()}};
  }
  const std::vector<Replication> replications = replicate(recipes, measured, renewed);
  if (options->flag("page")) {
    output.append(replication_page(replications));
    output.finish();
  } else {
    output.write(report_replications(replications));
  }
  return std::ranges::all_of(replications, [](const Replication& of) { return of.unexpected.empty(); }) ? 0 : 1;
}

}  // namespace onchip
