// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/families.hpp"

#include "experiments/command/plan_options.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/command/report.hpp"
#include "experiments/measurement/compilation.hpp"
#include "experiments/measurement/manifest.hpp"
#include "kernels/recurrent/program.hpp"
#include "model/answer/constraint_words.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"

#include <algorithm>
#include <future>
#include <iostream>
#include <limits>
#include <memory>
#include <utility>

namespace onchip {
namespace {

// ---- one network ----------------------------------------------------------------------------------------------------

struct Race {
  Configuration configuration;
  std::vector<RankedPlan> ranking;  // as predicted, the fastest first
};

Race make_race(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
               std::span<const std::string_view> without, const std::string& architecture) {
  Race race{configuration, rank_compiled_plans(chip, configuration, rows, architecture)};
  std::erase_if(race.ranking,
                [&](const RankedPlan& ranked) { return std::ranges::find(without, ranked.family) != without.end(); });
  return race;
}

bool is_run(const RankedPlan& ranked) {
  return ranked.planned && ranked.planned->prediction.footprint.fits;
}

bool is_kernel(const RankedPlan& ranked) {
  return find_family(ranked.family).is_on_chip;
}

std::vector<Plan> kernel_plans(const Race& race) {
  std::vector<Plan> plans;
  for (const RankedPlan& ranked : race.ranking) {
    if (is_run(ranked) && is_kernel(ranked)) {
      plans.push_back(ranked.planned->plan);
    }
  }
  return plans;
}

std::vector<CompileRequest> compile_requests(const Race& race, const std::string& architecture) {
  std::vector<CompileRequest> requests;
  for (const Plan& plan : kernel_plans(race)) {
    requests.push_back(compile_request(race.configuration.network, plan, architecture));
    requests.push_back(compile_order_request(race.configuration.network, plan, architecture));
  }
  return requests;
}

struct PreparedRace {
  std::shared_ptr<const SparseMatrix> matrix;
  std::vector<Prepared> kernels;
};

PreparedRace prepare_race(const Race& race, std::shared_ptr<const SparseMatrix> matrix, const MeasureOptions& options) {
  const std::vector<Plan> plans = kernel_plans(race);
  PreparedRace prepared{std::move(matrix), {}};
  prepared.kernels = prepare_all(race.configuration.network, plans, prepared.matrix, options);
  return prepared;
}

// Beside each other: what was predicted and what was measured.
struct FamilyResult {
  RankedPlan ranked;
  FamilyMeasurement measured;
  std::int64_t nnz = 0;
  bool picked = false, fastest = false;

  bool timed() const { return measured.measurement.step_us.samples > 0; }
  std::string note() const { return timed() ? "" : is_run(ranked) ? measured.problem : ranked.why; }
};

std::vector<FamilyResult> run_race(const Race& race, const PreparedRace& prepared, const MeasureOptions& options) {
  std::vector<std::string_view> libraries;
  for (const RankedPlan& ranked : race.ranking) {
    if (!is_kernel(ranked)) {
      libraries.push_back(ranked.family);
    }
  }
  const std::vector<FamilyMeasurement> measured =
      measure_families(race.configuration.network, *prepared.matrix, prepared.kernels, libraries, options);
  std::vector<FamilyResult> results;
  for (const RankedPlan& ranked : race.ranking) {
    FamilyResult& result = results.emplace_back(FamilyResult{ranked, {}, prepared.matrix->nnz()});
    const auto found = std::ranges::find(measured, ranked.family, &FamilyMeasurement::family);
    if (found != measured.end()) {
      result.measured = *found;
    }
  }
  const auto picked = std::ranges::find_if(results, [](const FamilyResult& result) { return is_run(result.ranked); });
  if (picked != results.end()) {
    picked->picked = true;
  }
  const auto time = [](const FamilyResult& result) {
    return result.timed() ? result.measured.measurement.step_us.median : std::numeric_limits<double>::infinity();
  };
  if (const auto fastest = std::ranges::min_element(results, {}, time); fastest != results.end() && fastest->timed()) {
    fastest->fastest = true;
  }
  return results;
}

// ---- rows -----------------------------------------------------------------------------------------------------------

// Those of other measurements, as far as libraries have them, and what is said of families.
std::vector<std::string> family_columns() {
  std::vector<std::string> columns = configuration_columns();
  for (const char* column : {"nnz",       "family",      "plan",         "registers",        "relative_error",
                             "tolerance", "correct",     "predicted_us", "predicted_low_us", "predicted_high_us",
                             "step_us",   "step_low_us", "step_high_us", "sequence_us",      "samples",
                             "picked",    "fastest",     "fingerprint",  "code_fingerprint", "ran",
                             "note"}) {
    columns.emplace_back(column);
  }
  return columns;
}

// Without a plan: this family was not run, and the note says why.
std::vector<std::string> family_cells(const Configuration& configuration, const FamilyResult& result) {
  const Measurement& m = result.measured.measurement;
  const bool ran = is_run(result.ranked) && is_kernel(result.ranked) && m.registers > 0;
  const bool has_plan = is_run(result.ranked) && (result.timed() || is_kernel(result.ranked));
  const auto time = [&](double us) { return result.timed() ? significant(us, 6) : ""; };
  const auto predicted = [&](double Prediction::*us) {
    return is_run(result.ranked) ? significant(result.ranked.planned->prediction.*us, 6) : "";
  };
  std::vector<std::string> cells = configuration_cells(configuration);
  cells.insert(cells.end(), {std::to_string(result.nnz),
                             std::string(result.ranked.family),
                             has_plan ? to_string(result.ranked.planned->plan) : "",
                             ran ? std::to_string(m.registers) : "",
                             ran ? significant(m.relative_error, 4) : "",
                             ran ? significant(m.tolerance, 4) : "",
                             truth(m.correct),
                             predicted(&Prediction::step_us),
                             predicted(&Prediction::low_us),
                             predicted(&Prediction::high_us),
                             time(m.step_us.median),
                             time(m.step_us.low),
                             time(m.step_us.high),
                             ran ? time(m.sequence_us.median) : "",
                             std::to_string(m.step_us.samples),
                             truth(result.picked),
                             truth(result.fastest),
                             m.fingerprint,
                             m.code_fingerprint,
                             result.measured.ran,
                             result.note()});
  return cells;
}

Json to_json(const FamilyResult& result) {
  const Measurement& m = result.measured.measurement;
  Json json{{"family", result.ranked.family}, {"picked", result.picked}, {"fastest", result.fastest}};
  if (is_run(result.ranked)) {
    const Prediction& prediction = result.ranked.planned->prediction;
    json["plan"] = to_json(result.ranked.planned->plan);
    json["predicted_us"] = rounded(prediction.step_us);
    json["predicted_interval_us"] = {rounded(prediction.low_us), rounded(prediction.high_us)};
    json["why"] = result.ranked.why;
  }
  if (result.timed()) {
    json["step_us"] = {{"median", rounded(m.step_us.median)},
                       {"low", rounded(m.step_us.low)},
                       {"high", rounded(m.step_us.high)},
                       {"samples", m.step_us.samples}};
  } else {
    json["note"] = result.note();
  }
  if (!result.measured.ran.empty()) {
    json["ran"] = result.measured.ran;
    json["settings"] = result.measured.settings;
  } else if (m.registers > 0) {
    json["registers"] = m.registers;
    json["relative_error"] = rounded(m.relative_error);
    json["correct"] = m.correct;
    json["sequence_us"] = rounded(m.sequence_us.median);
    json["fingerprint"] = m.fingerprint;
    json["code_fingerprint"] = m.code_fingerprint;
  }
  return json;
}

Report report(const ChipFile& chip, const Configuration& configuration, const std::vector<FamilyResult>& results,
              const Manifest& manifest) {
  Report report;
  report.json = {{"chip", chip.chip.name},
                 {"device", manifest.gpu},
                 {"network", to_json(configuration.network)},
                 {"families", Json::array()}};
  report.csv.columns = family_columns();
  Table table{{"family", "predicted us", "measured us", "low", "high", "off by %", "", "ran"}, {}};
  for (const FamilyResult& result : results) {
    report.json["families"].push_back(to_json(result));
    report.csv.rows.push_back(family_cells(configuration, result));
    const Timing& step = result.measured.measurement.step_us;
    const double predicted = is_run(result.ranked) ? result.ranked.planned->prediction.step_us : 0;
    const std::string which = std::string(result.picked ? "picked" : "") +
                              (result.picked && result.fastest ? ", " : "") + (result.fastest ? "fastest" : "");
    table.rows.push_back({std::string(result.ranked.family), is_run(result.ranked) ? fixed(predicted, 3) : "",
                          result.timed() ? fixed(step.median, 3) : "", result.timed() ? fixed(step.low, 3) : "",
                          result.timed() ? fixed(step.high, 3) : "",
                          result.timed() ? fixed(100 * (predicted / step.median - 1), 1) : "", which,
                          result.timed() && !is_kernel(result.ranked) ? result.measured.ran : result.note()});
  }
  report.text =
      describe(configuration.network) + " on " + manifest.gpu + ", driver " + manifest.driver + ", " +
      manifest.compiler + "\n\n" + to_aligned(table) +
      "\nIn turns in one run. Kernels: steady state, with checked results; libraries: whole sequence / steps.\n";
  for (const FamilyResult& result : results) {
    if (is_run(result.ranked) && is_kernel(result.ranked)) {
      report.text += to_string(result.ranked.planned->plan) + '\n';
    }
  }
  return report;
}

bool is_failure(const FamilyResult& result) {
  return is_run(result.ranked) && is_kernel(result.ranked) && !result.timed();
}

}  // namespace

int measure_families_once(const ChipFile& chip, const Configuration& configuration, const MeasureOptions& options,
                          Output& output) {
  const Manifest manifest = current_manifest();
  warn_of_other_chip(chip.chip, manifest);
  const auto matrix = recurrent_matrix(configuration);
  const Race race = make_race(chip.chip, configuration, row_profile(configuration, *matrix), {}, manifest.architecture);
  auto preparing = std::async(std::launch::async, [&] { return prepare_race(race, matrix, options); });
  compile_all(compile_requests(race, manifest.architecture), [](std::size_t) {});
  const std::vector<FamilyResult> results = run_race(race, preparing.get(), options);
  output.write(report(chip, configuration, results, manifest));
  const bool any_timed = std::ranges::any_of(results, [](const FamilyResult& result) { return result.timed(); });
  return any_timed && std::ranges::none_of(results, is_failure) ? 0 : 1;
}

// ---- many networks --------------------------------------------------------------------------------------------------

int measure_families_file(const Options& options, const ChipFile& chip, const MeasureOptions& measure_options,
                          Output& output) {
  const CsvReader file(options.text("configurations"));
  for (const char* column : {"plan", "family"}) {
    if (file.has(column)) {
      throw InputError(file.file() + ": the column '" + column + "' contradicts --plan all");
    }
  }
  const Manifest manifest = current_manifest();
  std::optional<OutputFile> manifest_file;
  if (!output.path().empty()) {
    manifest_file.emplace(manifest_path(output.path()));
  }
  std::vector<Race> races(file.size());
  Progress progress;
  progress.show("planning and compiling " + std::to_string(races.size()) + " configurations");
  for (std::size_t i = 0; i < races.size(); ++i) {
    races[i].configuration = read_configuration_row(file, i);
  }
  constexpr std::array kWithout{CusparsePlan::kName};
  parallel_for(static_cast<int>(races.size()), all_cores(), [&](int i) {
    Race& race = races[static_cast<std::size_t>(i)];
    race = make_race(chip.chip, Configuration(race.configuration), row_profile(race.configuration), kWithout,
                     manifest.architecture);
  });
  std::vector<CompileRequest> requests;
  for (const Race& race : races) {
    std::ranges::move(compile_requests(race, manifest.architecture), std::back_inserter(requests));
  }
  // What does not compile here fails again below, where it is reported with its row.
  compile_all(requests, [&](std::size_t done) {
    progress.show("compiling " + std::to_string(done) + " of " + std::to_string(requests.size()));
  });

  output.append(csv_line(family_columns()));
  std::vector<std::future<PreparedRace>> prepared(races.size());
  const auto begin_row = [&](std::size_t i) {
    if (i < races.size()) {
      prepared[i] = std::async(std::launch::async, [&race = races[i], &measure_options] {
        return prepare_race(race, recurrent_matrix(race.configuration), measure_options);
      });
    }
  };
  const auto ahead = static_cast<std::size_t>(all_cores());
  for (std::size_t i = 0; i < ahead; ++i) {
    begin_row(i);
  }
  std::size_t failed = 0;
  const auto fail = [&](std::size_t i, const std::string& what) {
    ++failed;
    progress.clear();
    std::cerr << file.file() << ": row " << i + 1 << " (" << describe(races[i].configuration.network) << "): " << what
              << '\n';
  };
  for (std::size_t i = 0; i < races.size(); ++i) {
    progress.show("measuring " + std::to_string(i + 1) + " of " + std::to_string(races.size()) + ": " +
                  describe(races[i].configuration.network));
    begin_row(i + ahead);
    try {
      for (const FamilyResult& result : run_race(races[i], prepared[i].get(), measure_options)) {
        output.append(csv_line(family_cells(races[i].configuration, result)));
        if (is_failure(result)) {
          fail(i, std::string(result.ranked.family) + ": " + result.note());
        }
      }
    } catch (const std::exception& error) {
      fail(i, error.what());
    }
  }
  output.finish();
  if (manifest_file) {
    manifest_file->write(to_json_text(manifest));
    manifest_file->commit();
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace onchip
