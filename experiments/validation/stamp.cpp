// SPDX-License-Identifier: Apache-2.0
// onchip stamp: measured rows keep their fingerprints through changes of the source's words. A row whose machine code
// is found the same gets today's fingerprint of the source; one without a fingerprint of its machine code gets it while
// that of its source is today's. A row whose machine code differs is left as it is.
#include "experiments/command/configuration_rows.hpp"
#include "experiments/command/output.hpp"
#include "experiments/command/verbs.hpp"
#include "model/base/error.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/command/progress.hpp"
#include "experiments/measurement/machine_code.hpp"
#include "model/base/input_file.hpp"
#endif

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace onchip {
namespace {

#ifdef ONCHIP_HAS_CUDA

constexpr const char *kSource = "fingerprint", *kCode = "code_fingerprint";

// The place of a column in a table's rows; another beside it for the code where a file is from before there was one.
struct DataFile {
  Table table;
  std::size_t source = 0, code = 0;
};

DataFile read_data(const std::filesystem::path& path) {
  InputFile input(path);
  DataFile data{parse_csv(input.bytes(), path.string())};
  if (to_csv(data.table) != input.bytes()) {
    throw InputError(path.string() + ": not written as onchip writes it (quotes, ends of lines): stamping it would " +
                     "change more than its fingerprints");
  }
  auto& columns = data.table.columns;
  data.source = static_cast<std::size_t>(std::ranges::find(columns, kSource) - columns.begin());
  auto code = std::ranges::find(columns, kCode);
  if (code == columns.end()) {
    const auto behind = static_cast<std::ptrdiff_t>(data.source) + 1;
    code = columns.insert(columns.begin() + behind, kCode);
    for (auto& row : data.table.rows) {
      row.insert(row.begin() + behind, "");
    }
  }
  data.code = static_cast<std::size_t>(code - columns.begin());
  return data;
}

struct StampedRow {
  std::size_t row = 0;
  CodeComparison comparison;
};

std::vector<StampedRow> compare_rows(const CsvReader& file, const Manifest& manifest, Progress& progress) {
  std::vector<StampedRow> stamped;
  std::vector<MeasuredKernel> kernels;
  std::vector<std::size_t> places;  // of the kernels' rows in `stamped`
  for (std::size_t i = 0; i < file.size(); ++i) {
    if (file.text(i, kSource).empty()) {
      continue;  // a library, or nothing that ran
    }
    StampedRow& row = stamped.emplace_back(StampedRow{i, {}});
    try {
      const Configuration configuration = read_configuration_row(file, i, /*with_weights=*/false);
      if (!configuration.plan) {
        throw InputError("no plan");
      }
      check_plan(configuration.network, *configuration.plan);
      kernels.push_back({configuration.network, *configuration.plan, file.text(i, kSource),
                         file.has(kCode) ? file.text(i, kCode) : ""});
      places.push_back(stamped.size() - 1);
    } catch (const InputError& error) {  // a plan from before
      row.comparison.problem = error.what();
    }
  }
  const std::vector<CodeComparison> comparisons =
      compare_code(kernels, manifest, /*trusting=*/true, [&](std::size_t done, std::size_t all) {
        progress.show(std::filesystem::path(file.file()).filename().string() + ": compiling " + std::to_string(done) +
                      " of " + std::to_string(all));
      });
  for (std::size_t i = 0; i < places.size(); ++i) {
    stamped[places[i]].comparison = comparisons[i];
  }
  return stamped;
}

// Of all files, answer by answer, and row by row.
class Stamps {
 public:
  void add(const std::filesystem::path& path, const Manifest& manifest, const Table& table,
           const std::vector<StampedRow>& stamped, const DataFile& data) {
    std::array<std::size_t, kCodeAnswers.size()> counts{};
    const auto cell = [&](const StampedRow& row, std::string_view column) {
      const auto place = std::ranges::find(table.columns, column) - table.columns.begin();
      return table.rows[row.row][static_cast<std::size_t>(place)];
    };
    for (const StampedRow& row : stamped) {
      const CodeComparison& comparison = row.comparison;
      ++counts[static_cast<std::size_t>(comparison.answer)];
      std::vector<std::string> cells{path.string()};
      for (const char* column : {"plan", "cell", "hidden", "batch", "precision"}) {
        cells.push_back(cell(row, column));
      }
      const auto& written = data.table.rows[row.row];
      cells.insert(cells.end(), {manifest.architecture, written[data.source], written[data.code],
                                 std::string(name(comparison.answer)), comparison.problem});
      if (comparison.answer == CodeAnswer::differs || comparison.answer == CodeAnswer::failed) {
        refused_.push_back(
            path.string() + ": row " + std::to_string(row.row + 1) + ": " +
            (comparison.problem.empty() ? "its machine code is another: " + cell(row, "plan") : comparison.problem));
      }
      csv_.rows.push_back(std::move(cells));
    }
    Json json{{"file", path.string()}, {"rows", stamped.size()}};
    std::vector<std::string> line{path.string(), std::to_string(stamped.size())};
    for (std::size_t i = 0; i < counts.size(); ++i) {
      json[std::string(kCodeAnswers[i])] = counts[i];
      line.push_back(std::to_string(counts[i]));
      sums_[i] += counts[i];
    }
    files_.push_back(std::move(json));
    table_.rows.push_back(std::move(line));
  }

  bool refused_any() const { return !refused_.empty(); }

  Report report() const {
    constexpr std::size_t kShown = 20;
    Table table = table_;
    Report report;
    report.csv = csv_;
    report.json = {{"files", files_}};
    std::vector<std::string> sum{"all", std::to_string(csv_.rows.size())};
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      report.json[std::string(kCodeAnswers[i])] = sums_[i];
      sum.push_back(std::to_string(sums_[i]));
    }
    report.json["refused"] = refused_;
    table.rows.push_back(std::move(sum));
    report.text = to_aligned(table);
    for (std::size_t i = 0; i < std::min(kShown, refused_.size()); ++i) {
      report.text += (i ? "" : "\n") + refused_[i] + '\n';
    }
    if (refused_.size() > kShown) {
      report.text += "and " + std::to_string(refused_.size() - kShown) + " more, which csv and json have\n";
    }
    return report;
  }

 private:
  static Table counts_table() {
    Table table{{"file", "rows"}, {}};
    table.columns.insert(table.columns.end(), kCodeAnswers.begin(), kCodeAnswers.end());
    return table;
  }

  std::array<std::size_t, kCodeAnswers.size()> sums_{};
  Table csv_{
      {"file", "plan", "cell", "hidden", "batch", "precision", "architecture", kSource, kCode, "answer", "problem"},
      {}};
  Table table_ = counts_table();
  Json files_ = Json::array();
  std::vector<std::string> refused_;
};

void stamp_file(const std::filesystem::path& path, bool dry_run, Progress& progress, Stamps& stamps) {
  const CsvReader file(path);
  if (!file.has(kSource) || !file.has("plan")) {
    return;  // no rows of kernels
  }
  const Manifest manifest = read_manifest(manifest_path(path));
  DataFile data = read_data(path);
  const Table before = data.table;
  const std::vector<StampedRow> stamped = compare_rows(file, manifest, progress);
  bool any_stamped = false;
  for (const StampedRow& row : stamped) {
    const CodeComparison& comparison = row.comparison;
    auto& cells = data.table.rows[row.row];
    any_stamped |= comparison.answer == CodeAnswer::same || comparison.answer == CodeAnswer::recorded;
    if (comparison.answer == CodeAnswer::same) {
      cells[data.source] = comparison.fingerprint;
    } else if (comparison.answer == CodeAnswer::recorded) {
      cells[data.code] = comparison.code_fingerprint;
    }
  }
  stamps.add(path, manifest, before, stamped, data);
  if (any_stamped && !dry_run) {
    write_file(path, to_csv(data.table));
  }
}

#endif

std::vector<OptionGroup> stamp_options() {
  return {
      option_group("Stamping", {{"data", "FILE...",
                                 "Stamp measured CSV files, each with its manifest beside it; the option's name may be "
                                 "left out. Files without fingerprints are left alone."},
                                {"dry-run", "", "Say what would be stamped, and leave the files as they are."}}),
      output_options()};
}

int run_stamp(const Options& options) {
#ifdef ONCHIP_HAS_CUDA
  if (options.list("data").empty()) {
    throw InputError("no file to stamp: expected measured CSV files");
  }
  Output output(options);
  Progress progress;
  Stamps stamps;
  for (const std::string& file : options.list("data")) {
    stamp_file(file, options.flag("dry-run"), progress, stamps);
  }
  progress.clear();
  output.write(stamps.report());
  return stamps.refused_any() ? 1 : 0;
#else
  throw InputError("built without CUDA: stamp needs a CUDA toolkit when onchip is configured");
#endif
}

}  // namespace

const Verb kStampVerb{"stamp",
                      "Renew the fingerprints of measured rows whose machine code is found the same.",
                      "onchip stamp experiments/data/*/*.csv",
                      stamp_options,
                      run_stamp,
                      "data"};

}  // namespace onchip
