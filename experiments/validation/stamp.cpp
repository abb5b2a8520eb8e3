// SPDX-License-Identifier: Apache-2.0
// onchip stamp: measured rows keep their fingerprints through changes of the source's words. A row whose machine code
// is found the same gets today's fingerprint of the source; one without a fingerprint of its machine code gets it while
// that of its source is today's. A row whose machine code differs is left as it is.
#include "experiments/command/configuration_rows.hpp"
#include "experiments/command/output.hpp"
#include "experiments/command/verbs.hpp"
#include "model/base/error.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/measurement/machine_code.hpp"
#include "model/base/input_file.hpp"
#endif

#include <algorithm>
#include <array>
#include <numeric>
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

std::vector<StampedRow> compare_rows(const CsvReader& file, const Manifest& manifest) {
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
  const std::vector<CodeComparison> comparisons = compare_code(kernels, manifest, /*trusting=*/true, file.file());
  for (std::size_t i = 0; i < places.size(); ++i) {
    stamped[places[i]].comparison = comparisons[i];
  }
  return stamped;
}

// Of all files, answer by answer, and row by row.
class Stamps {
 public:
  Stamps() { table_.columns.insert(table_.columns.end(), kCodeAnswers.begin(), kCodeAnswers.end()); }

  void add(const CsvReader& file, const Manifest& manifest, const std::vector<StampedRow>& stamped,
           const DataFile& data) {
    Counts counts{};
    for (const auto& [i, comparison] : stamped) {
      const auto answer = static_cast<std::size_t>(comparison.answer);
      ++counts[answer];
      ++sums_[answer];
      std::vector<std::string>& cells = csv_.rows.emplace_back(1, file.file());
      for (const char* column : {"plan", "cell", "hidden", "batch", "precision"}) {
        cells.push_back(file.text(i, column));
      }
      const auto& written = data.table.rows[i];
      cells.insert(cells.end(), {manifest.architecture, written[data.source], written[data.code],
                                 std::string(name(comparison.answer)), comparison.problem});
      if (comparison.answer == CodeAnswer::differs || comparison.answer == CodeAnswer::failed) {
        refused_.push_back(
            file.file() + ": row " + std::to_string(i + 1) + ": " +
            (comparison.problem.empty() ? "its machine code is another: " + cells[1] : comparison.problem));
      }
    }
    files_.push_back(add_line(file.file(), counts));
  }

  bool refused_any() const { return !refused_.empty(); }

  Report report() {
    constexpr std::size_t kShown = 20;
    Json json = add_line("all", sums_);
    json.erase("file");
    json.erase("rows");
    json["files"] = files_;
    json["refused"] = refused_;
    std::string text = to_aligned(table_);
    for (std::size_t i = 0; i < std::min(kShown, refused_.size()); ++i) {
      text += (i ? "" : "\n") + refused_[i] + '\n';
    }
    if (refused_.size() > kShown) {
      text += "and " + std::to_string(refused_.size() - kShown) + " more, which csv and json have\n";
    }
    return {std::move(text), csv_, std::move(json)};
  }

 private:
  using Counts = std::array<std::size_t, kCodeAnswers.size()>;

  // A line of the table, and the same as JSON.
  Json add_line(const std::string& file, const Counts& counts) {
    const auto rows = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    Json json{{"file", file}, {"rows", rows}};
    std::vector<std::string>& line = table_.rows.emplace_back(std::vector{file, std::to_string(rows)});
    for (std::size_t i = 0; i < counts.size(); ++i) {
      json[std::string(kCodeAnswers[i])] = counts[i];
      line.push_back(std::to_string(counts[i]));
    }
    return json;
  }

  Counts sums_{};
  Table csv_{
      {"file", "plan", "cell", "hidden", "batch", "precision", "architecture", kSource, kCode, "answer", "problem"},
      {}};
  Table table_{{"file", "rows"}, {}};
  Json files_ = Json::array();
  std::vector<std::string> refused_;
};

void stamp_file(const std::filesystem::path& path, bool dry_run, Stamps& stamps) {
  const CsvReader file(path);
  if (!file.has(kSource) || !file.has("plan")) {
    return;  // no rows of kernels
  }
  const Manifest manifest = read_manifest(manifest_path(path));
  DataFile data = read_data(path);
  const std::vector<StampedRow> stamped = compare_rows(file, manifest);
  bool any_stamped = false;
  for (const auto& [row, comparison] : stamped) {
    auto& cells = data.table.rows[row];
    any_stamped |= comparison.answer == CodeAnswer::same || comparison.answer == CodeAnswer::recorded;
    if (comparison.answer == CodeAnswer::same) {
      cells[data.source] = comparison.fingerprint;
    } else if (comparison.answer == CodeAnswer::recorded) {
      cells[data.code] = comparison.code_fingerprint;
    }
  }
  stamps.add(file, manifest, stamped, data);
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

int run_stamp([[maybe_unused]] const Options& options) {
#ifdef ONCHIP_HAS_CUDA
  if (options.list("data").empty()) {
    throw InputError("no file to stamp: expected measured CSV files");
  }
  Output output(options);
  Stamps stamps;
  for (const std::string& file : options.list("data")) {
    stamp_file(file, options.flag("dry-run"), stamps);
  }
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
