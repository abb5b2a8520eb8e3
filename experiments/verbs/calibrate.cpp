// SPDX-License-Identifier: Apache-2.0
// onchip calibrate: microbenchmarks on this machine's GPU, or their stored rows, become a chip file.
#include "experiments/calibration/chip_rewrite.hpp"
#include "experiments/command/configuration_rows.hpp"
#include "experiments/command/output.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/measurement/manifest.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/shipped.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/command/progress.hpp"
#include "kernels/microbench/microbench.hpp"
#include "model/base/parallel.hpp"
#include "sim/exchange/exchange.hpp"

#include <Eigen/Dense>
#endif

#include <array>
#include <cmath>
#include <functional>
#include <iostream>
#include <span>
#include <string>
#include <vector>

namespace onchip {
namespace {

#ifdef ONCHIP_HAS_CUDA

// ---- the simulated exchange -----------------------------------------------------------------------------------------

// What of the simulated exchange (sim/exchange/exchange.hpp) no single microbenchmark measures: exchange.look,
// exchange.look_per_word, exchange.before_barrier and l2.slices, such that the simulated microbenchmark
// (sim/exchange/exchange.hpp) takes as long as the measured one.
//
// A search coordinate by coordinate, with smaller and smaller steps, for the least mean square of the logarithms of
// simulated / measured; from the chip's values, so that the same rows and the same file give the same constants.

// Larger states would take most of the time.
constexpr int kMostBytes = 80000;
constexpr ExchangeOptions kOptions{.warmup_steps = 2, .steps = 3, .free = false};

struct Measured {
  ExchangeBench bench;
  double cycles;
};

std::vector<Measured> measured_exchanges(std::span<const MicrobenchRow> rows) {
  std::vector<Measured> result;
  for (const MicrobenchRow& row : rows) {
    Measured measured{{}, row.value};
    int batch = 0;
    ExchangeBench& bench = measured.bench;
    const bool is_one = row.bench == "exchange" && row.unit == "cycles" && row.samples > 0 && row.value > 0 &&
                        std::sscanf(row.parameters.c_str(),
                                    "bytes=%d batch=%d sms=%d threads=%d loads=%d poll_delay=%d", &bench.state_bytes,
                                    &batch, &bench.sms, &bench.threads, &bench.loads_in_flight, &bench.poll_delay) == 6;
    if (is_one && bench.state_bytes <= kMostBytes) {
      result.push_back(measured);
    }
  }
  return result;
}

struct Constant {
  const char* key;
  Number Chip::*value;
  double first_step, last_step, least, most;
};
constexpr std::array kConstants{
    Constant{"exchange.look", &Chip::look_cycles, 32, 4, 0, 1000},
    Constant{"exchange.look_per_word", &Chip::look_per_word_cycles, 8, 1, 0, 200},
    Constant{"exchange.before_barrier", &Chip::before_barrier_cycles, 32, 4, 0, 1000},
    Constant{"l2.slices", &Chip::l2_slices, 32, 4, 2, 1024},
};
using Point = std::array<double, kConstants.size()>;

Point constants_of(const Chip& chip) {
  Point point;
  for (std::size_t i = 0; i < kConstants.size(); ++i) {
    point[i] = chip.*kConstants[i].value;
  }
  return point;
}

Chip with(Chip chip, const Point& point) {
  for (std::size_t i = 0; i < kConstants.size(); ++i) {
    (chip.*kConstants[i].value).value = point[i];
  }
  return chip;
}

class Fit {
 public:
  Fit(const Chip& chip, std::vector<Measured> measured) : chip_(chip), measured_(std::move(measured)) {}

  // Logarithms of simulated / measured.
  Eigen::VectorXd errors(const Point& point) const {
    const Chip chip = with(chip_, point);
    Eigen::VectorXd result(static_cast<Eigen::Index>(measured_.size()));
    parallel_for(static_cast<int>(measured_.size()), all_cores(), [&](int i) {
      const Measured& row = measured_[static_cast<std::size_t>(i)];
      result[i] = std::log(simulate_exchange_bench(chip, row.bench, kOptions) / row.cycles);
    });
    return result;
  }

  Point search(Point at, const std::function<void(const std::string&)>& say) const {
    double best = errors(at).squaredNorm();
    for (double scale = 1; scale >= 1.0 / 8; scale /= 2) {
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t i = 0; i < kConstants.size(); ++i) {
          const double step = std::max(kConstants[i].first_step * scale, kConstants[i].last_step);
          for (const double by : {step, -step}) {
            Point next = at;
            next[i] = std::clamp(at[i] + by, kConstants[i].least, kConstants[i].most);
            const double error = next == at ? best : errors(next).squaredNorm();
            if (error < best) {
              best = error;
              at = next;
              moved = true;
              say("the simulated exchange is off by " + fixed(100 * root_mean(best), 2) + " %");
              break;
            }
          }
        }
      }
    }
    return at;
  }

 private:
  double root_mean(double sum) const { return std::sqrt(sum / static_cast<double>(measured_.size())); }

  Chip chip_;
  std::vector<Measured> measured_;
};

// `chip`: with all constants that fit_constants() finds. None if there are too few rows. `say`: what is being done.
std::vector<CalibratedConstant> fit_simulated_exchange(const Chip& chip, std::span<const MicrobenchRow> rows,
                                                       const std::function<void(const std::string&)>& say) {
  std::vector<Measured> measured = measured_exchanges(rows);
  const auto count = static_cast<Eigen::Index>(measured.size());
  constexpr Eigen::Index kTerms = kConstants.size();
  if (count < 8 * kTerms) {
    return {};
  }
  const Fit fit(chip, std::move(measured));
  const Point best = fit.search(constants_of(chip), say);
  const Eigen::VectorXd errors = fit.errors(best);

  // The 95 % intervals, as of least squares: what the errors change with each constant.
  Eigen::MatrixXd slopes(count, kTerms);
  for (std::size_t i = 0; i < kConstants.size(); ++i) {
    Point next = best;
    next[i] += kConstants[i].first_step / 2;
    slopes.col(static_cast<Eigen::Index>(i)) = (fit.errors(next) - errors) / (next[i] - best[i]);
  }
  const double variance = errors.squaredNorm() / static_cast<double>(count - kTerms);
  const Eigen::VectorXd widths =
      1.96 * (variance * (slopes.transpose() * slopes).inverse()).diagonal().cwiseAbs().cwiseSqrt();

  const Eigen::ArrayXd relative = (errors.array().exp() - 1).abs();
  const std::string method =
      "so that simulated exchanges take as long as measured ones: " + std::to_string(count) + " of up to " +
      std::to_string(kMostBytes / 1000) + " KB, mean error " + significant(100 * relative.mean(), 3) + " %, worst " +
      significant(100 * relative.maxCoeff(), 3) + " %, bias " + fixed(std::exp(errors.mean()), 3);
  std::vector<CalibratedConstant> constants;
  for (std::size_t i = 0; i < kConstants.size(); ++i) {
    // Not beyond what the chip file takes.
    const double width = std::min(widths[static_cast<Eigen::Index>(i)], 0.9 * best[i]);
    constants.push_back({kConstants[i].key, best[i], width, method});
  }
  return constants;
}

// ---- rows -----------------------------------------------------------------------------------------------------------

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
    rows.push_back({file.text(i, "bench"), file.text(i, "parameters"), file.number(i, "value"), file.number(i, "low"),
                    file.number(i, "high"), file.text(i, "unit"), static_cast<int>(read_whole(file, i, "samples")),
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
  const std::string only = options.text("only");
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
  options.refuse({"data", "only"}, "contradicts --from: the rows are stored already");
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

std::vector<OptionGroup> calibrate_options() {
  return {option_group("Calibration",
                       {{"chip", "NAME|FILE", "Start from this chip; what is not measured stays as it is.", "h200"},
                        {"data", "FILE", "Write the measured rows as CSV, with a manifest beside it."},
                        {"only", "NAME", "Measure with this kernel of kernels/microbench/ only, as 'cluster_sums'."},
                        {"from", "FILE", "Take stored rows, with the manifest beside them, instead of measuring."},
                        {"output,o", "FILE", "Write the chip file here (default: the standard output)."}})};
}

int run_calibrate([[maybe_unused]] const Options& options) {
#ifdef ONCHIP_HAS_CUDA
  const std::string base = options.text("chip");
  const Chip chip = find_chip(base).chip;
  const std::filesystem::path base_file = chip_path(base, chip.name);
  std::optional<OutputFile> output;
  if (options.given("output")) {
    output.emplace(options.text("output"));
  }
  const Rows measured =
      options.given("from") ? stored_rows(options, chip.architecture) : measure_rows(options, chip.architecture);
  std::vector<Replacement> constants = replacements(measured.manifest, fit_constants(measured.rows));
  if (constants.empty()) {
    throw InputError("the rows determine no constant of a chip file");
  }
  InputFile text(base_file);
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
  load_chip(options.text("output"));
  std::cerr << "onchip: " << constants.size() << " numbers of the " << chip.name << " measured; see 'onchip chips "
            << options.text("output") << "'\n";
  return 0;
#else
  throw InputError("built without CUDA: calibrate needs a CUDA toolkit when onchip is configured");
#endif
}

}  // namespace

const Verb kCalibrateVerb{
    "calibrate", "Measure a chip's timing constants with microbenchmarks and write them as a chip file.",
    "onchip calibrate --chip h200 --data microbench.csv -o h200.toml", calibrate_options, run_calibrate};

}  // namespace onchip
