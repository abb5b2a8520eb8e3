// SPDX-License-Identifier: Apache-2.0
// onchip calibrate: microbenchmarks on this machine's GPU, or their stored rows, become a chip file.
#include "experiments/calibration/chip_rewrite.hpp"
#include "experiments/command/output.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/measurement/manifest.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/shipped.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/calibration/exchange_fit.hpp"
#include "experiments/command/progress.hpp"
#include "kernels/microbench/microbench.hpp"
#endif

#include <cstdlib>
#include <iostream>

namespace onchip {
namespace {

namespace po = boost::program_options;

OptionGroup calibrate_options() {
  OptionGroup group = option_group("Calibration");
  // clang-format off
  group.add_options()
      ("chip", po::value<std::string>()->value_name("NAME|FILE")->default_value("h200"),
       "Start from this chip; what is not measured stays as it is.")
      ("data", po::value<std::string>()->value_name("FILE"),
       "Write the measured rows as CSV, with a manifest beside it.")
      ("only", po::value<std::string>()->value_name("NAME"),
       "Measure with this kernel of kernels/microbench/ only, as 'cluster_sums'.")
      ("from", po::value<std::string>()->value_name("FILE"),
       "Take stored rows, with the manifest beside them, instead of measuring.")
      ("output,o", po::value<std::string>()->value_name("FILE"),
       "Write the chip file here (default: the standard output).");
  // clang-format on
  return group;
}

#ifdef ONCHIP_HAS_CUDA

// Constants of one architecture must not end up in the file of another.
void check_architecture(const Manifest& manifest, const std::string& expected) {
  if (manifest.architecture != expected) {
    throw InputError("the rows are of a " + manifest.gpu + " (" + manifest.architecture + "), but --chip is for " +
                     (expected.empty() ? "an architecture without a compiler" : expected));
  }
}

Table to_table(const std::vector<MicrobenchRow>& rows) {
  Table table{{"bench", "parameters", "value", "low", "high", "unit", "samples", "predicted"}, {}};
  for (const MicrobenchRow& row : rows) {
    table.rows.push_back({row.bench, row.parameters, significant(row.value, 7), significant(row.low, 7),
                          significant(row.high, 7), row.unit, std::to_string(row.samples),
                          significant(row.predicted, 7)});
  }
  return table;
}

std::vector<MicrobenchRow> read_rows(const std::filesystem::path& path) {
  const CsvReader file(path);
  std::vector<MicrobenchRow> rows;
  for (std::size_t i = 0; i < file.size(); ++i) {
    const double samples = file.number(i, "samples");
    if (!(samples >= 0 && samples < 1e9)) {
      file.fail(i, "column 'samples': found " + in_quotes(file.text(i, "samples")) + ": expected a whole number");
    }
    rows.push_back({file.text(i, "bench"), file.text(i, "parameters"), file.number(i, "value"), file.number(i, "low"),
                    file.number(i, "high"), file.text(i, "unit"), static_cast<int>(samples),
                    file.number(i, "predicted")});
  }
  return rows;
}

// Where the file of a chip that find_chip found stands.
std::filesystem::path chip_path(const std::string& name_or_file, const std::string& chip_name) {
  if (name_or_file.find('/') != std::string::npos || name_or_file.ends_with(".toml")) {
    return name_or_file;
  }
  for (const auto& entry : std::filesystem::directory_iterator(chips_folder().path)) {
    if (entry.path().extension() == ".toml" && load_chip(entry.path()).chip.name == chip_name) {
      return entry.path();
    }
  }
  throw InputError("no file of the chip '" + chip_name + "' was found");
}

struct Rows {
  std::vector<MicrobenchRow> rows;
  Manifest manifest;
};

Rows measure_rows(const Options& options, const std::string& expected_architecture) {
  const Manifest manifest = current_manifest();
  check_architecture(manifest, expected_architecture);
  std::optional<OutputFile> data, beside;
  if (options.given("data")) {
    data.emplace(options.text("data"));
    beside.emplace(manifest_path(options.text("data")));
  }
  Progress progress;
  const std::string only = options.given("only") ? options.text("only") : "";
  std::vector<MicrobenchRow> rows = run_microbenchmarks(only, [&](std::string_view what, int done, int total) {
    progress.show(std::string(what) + (total > 0 ? ", " + std::to_string(done) + " of " + std::to_string(total) : ""));
  });
  if (data) {
    data->write(to_csv(to_table(rows)));
    beside->write(to_json_text(manifest));
    data->commit();
    beside->commit();
  }
  return {std::move(rows), manifest};
}

Rows stored_rows(const Options& options, const std::string& expected_architecture) {
  if (options.given("data") || options.given("only")) {
    throw InputError("--data and --only contradict --from: the rows are stored already");
  }
  const std::filesystem::path file = options.text("from");
  const Manifest manifest = read_manifest(manifest_path(file));
  check_architecture(manifest, expected_architecture);
  return {read_rows(file), manifest};
}

std::vector<Replacement> replacements(const Manifest& manifest, const std::vector<CalibratedConstant>& constants) {
  std::vector<Replacement> result;
  for (const CalibratedConstant& constant : constants) {
    result.push_back({constant.key, constant.value, constant.half_width,
                      "measured by onchip calibrate, " + manifest.date + ", " + manifest.gpu + ", driver " +
                          manifest.driver + ": " + constant.method});
  }
  return result;
}

#endif

}  // namespace

int run_calibrate(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto options = parse_options(verb, arguments, {calibrate_options()});
  if (!options) {
    return 0;
  }
#ifdef ONCHIP_HAS_CUDA
  const std::string base = options->text("chip");
  const Chip chip = find_chip(base).chip;
  const std::filesystem::path base_file = chip_path(base, chip.name);
  std::optional<OutputFile> output;
  if (options->given("output")) {
    output.emplace(options->text("output"));
  }
  const Rows measured =
      options->given("from") ? stored_rows(*options, chip.architecture) : measure_rows(*options, chip.architecture);
  std::vector<Replacement> constants = replacements(measured.manifest, fit_constants(measured.rows));
  if (constants.empty()) {
    throw InputError("the rows determine no constant of a chip file");
  }
  const MappedFile text(base_file);
  std::string rewritten = rewrite_chip(text.bytes(), base_file.string(), constants);
  // What is fitted through simulations depends on all other constants.
  Progress progress;
  const std::vector<Replacement> simulated = replacements(
      measured.manifest, fit_simulated_exchange(load_chip_text(rewritten, base_file.string()).chip, measured.rows,
                                                [&](const std::string& what) { progress.show(what); }));
  rewritten = rewrite_chip(rewritten, base_file.string(), simulated);
  constants.insert(constants.end(), simulated.begin(), simulated.end());
  if (!output) {
    std::cout << rewritten;
    return 0;
  }
  output->write(rewritten);
  output->commit();
  load_chip(options->text("output"));
  std::cerr << "onchip: " << constants.size() << " numbers of the " << chip.name << " measured; see 'onchip chips "
            << options->text("output") << "'\n";
  return 0;
#else
  throw InputError("built without CUDA: calibrate needs a CUDA toolkit when onchip is configured");
#endif
}

}  // namespace onchip
