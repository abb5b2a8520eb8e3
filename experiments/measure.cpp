// SPDX-License-Identifier: Apache-2.0
// onchip measure: plans as CUDA kernels, on this machine's GPU or, with --compile-only, as far as the compiler goes.
#include "experiments/manifest.hpp"
#include "experiments/report.hpp"
#include "experiments/verbs.hpp"
#include "model/error.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/capture.hpp"
#include "experiments/compilation.hpp"
#include "experiments/families.hpp"
#include "experiments/measurement.hpp"
#include "experiments/progress.hpp"
#include "kernels/persistent_kernel.hpp"
#include "sim/capture_difference.hpp"
#include "sim/compact_trace.hpp"
#include "sim/parallel.hpp"
#include "sim/plan_trace.hpp"
#endif

#include <algorithm>
#include <functional>
#include <future>
#include <iostream>
#include <memory>

namespace onchip {
namespace {

namespace po = boost::program_options;

OptionGroup measure_options() {
  OptionGroup group = option_group("Measurement");
  // clang-format off
  group.add_options()
      ("configurations", po::value<std::string>()->value_name("FILE"),
       "Measure every row of a CSV file (cell, hidden, batch, density, precision, mask, seed, steps and, if wanted, "
       "family, storage or plan) and write CSV rows, with a manifest beside the file of -o. With --plan all a row for "
       "every family.")
      ("opponents", "Time cuDNN, cuBLAS and cuSPARSE at the same size in turns with the kernel; what each computes is noted.")
      ("floor", "Time the plan's exchange alone, in turns with the kernel: with conflict-free loads, what it cannot beat.")
      ("clocks", "Show where the time of a step goes: the cycles from each of its points to the next.")
      ("capture", po::value<std::string>()->value_name("FILE"),
       "Write down every access to shared memory of one step instead, as a compact trace, and compare it with what "
       "simulate generates.")
      ("repeats", po::value<std::string>()->value_name("N")->default_value("15"), "Take this many samples.")
      ("interpret", "Check the results without a GPU: execute the kernel's PTX, thread by thread, on this CPU. No times. With --capture "
       "the accesses of that.")
      ("compile-only", "Compile without a GPU, and report registers and spills.")
      ("arch", po::value<std::string>()->value_name("SM"),
       "Compile for this architecture, with --compile-only (default: the chip's).");
  // clang-format on
  return group;
}

#ifdef ONCHIP_HAS_CUDA

bool compares_families(const Options& options) {
  return options.text("plan") == kAllPlans;
}

void refuse_contradictions(const Options& options) {
  for (const char* what : {"opponents", "floor", "clocks", "repeats", "compile-only"}) {
    if (options.flag("interpret") && options.given(what)) {
      throw InputError("--" + std::string(what) +
                       " contradicts --interpret: nothing runs on a GPU, and nothing is timed");
    }
  }
  for (const char* what : {"opponents", "floor", "clocks", "capture", "interpret", "compile-only"}) {
    if (compares_families(options) && options.given(what)) {
      throw InputError("--" + std::string(what) + " takes one plan, not 'all'");
    }
  }
  if (compares_families(options) && options.given("family")) {
    throw InputError("--family contradicts --plan all, which compares them");
  }
  if (options.given("configurations")) {
    for (const OptionGroup& group : {network_options(), plan_options(), whole_plan_option()}) {
      for (const auto& option : group.options()) {
        if (options.given(option->long_name()) && !(option->long_name() == "plan" && compares_families(options))) {
          throw InputError("--" + option->long_name() + " contradicts --configurations: the rows of the file say it");
        }
      }
    }
    if (options.flag("opponents") || options.flag("compile-only") || options.flag("interpret") ||
        options.given("capture")) {
      throw InputError(
          "--opponents, --compile-only, --interpret and --capture take one configuration, not a file of them");
    }
  }
  for (const char* what : {"opponents", "capture"}) {
    if (options.given(what) && options.flag("compile-only")) {
      throw InputError("--" + std::string(what) + " contradicts --compile-only: nothing runs");
    }
  }
  if (options.given("arch") && !options.flag("compile-only")) {
    throw InputError("--arch needs --compile-only: a measurement is on this machine's GPU");
  }
}

// ---- compiling only -------------------------------------------------------------------------------------------------

// In registers.
int weights_per_thread(const Network& network, const Plan& plan) {
  return plan.family == Family::dense_persistent ? 2 * register_words(network, plan) : plan.slots_total();
}

int compile_only(const Options& options, const ChipFile& chip, const Configuration& configuration, Output& output) {
  const std::string architecture = options.given("arch") ? options.text("arch") : chip.chip.architecture;
  if (architecture.empty()) {
    throw InputError("no compiler target is known for the " + chip.chip.name + ": expected --arch sm_NN");
  }
  const PlannedNetwork planned = plan_network(chip.chip, configuration, row_profile(configuration));
  // A little more than a thread can hold is worth knowing: how it spills. Far more keeps the compiler busy for minutes.
  constexpr int kMostWeights = 1024;
  const int weights = weights_per_thread(planned.network, planned.plan);
  if (weights > kMostWeights) {
    throw InputError(describe(planned.network) + " asks for " + std::to_string(weights) +
                     " weights per thread: at most " + std::to_string(kMostWeights) + " are compiled");
  }
  const CompiledKernel kernel = compile(compile_request(planned.network, planned.plan, architecture));
  const ResourceReport& compiled = kernel.resources;
  const double predicted = planned.prediction.footprint.resources[static_cast<std::size_t>(Resource::registers)].used;
  Report report;
  report.json = {{"chip", chip.chip.name},           {"network", to_json(planned.network)},
                 {"plan", to_json(planned.plan)},    {"architecture", architecture},
                 {"compiler", compiler_version()},   {"registers", compiled.registers},
                 {"predicted_registers", predicted}, {"spill_bytes", compiled.spill_bytes},
                 {"weights_per_thread", weights},    {"fingerprint", kernel.fingerprint}};
  report.csv.columns = configuration_columns();
  report.csv.rows = {configuration_cells(configuration)};
  const std::vector<std::pair<std::string, std::string>> values{{"architecture", architecture},
                                                                {"registers", std::to_string(compiled.registers)},
                                                                {"predicted_registers", fixed(predicted, 0)},
                                                                {"spill_bytes", std::to_string(compiled.spill_bytes)},
                                                                {"weights_per_thread", std::to_string(weights)},
                                                                {"fingerprint", kernel.fingerprint},
                                                                {"plan", to_string(planned.plan)}};
  for (const auto& [column, value] : values) {
    report.csv.columns.push_back(column);
    report.csv.rows[0].push_back(value);
    report.text += column + std::string(21 - column.size(), ' ') + value + '\n';
  }
  report.text = describe(planned.network) + " for " + architecture + ", " + compiler_version() + "\n\n" + report.text;
  output.write(report);
  return compiled.spill_bytes == 0 ? 0 : 1;
}

std::string correctness_text(const Correctness& correctness) {
  return (correctness.correct ? "yes" : "NO") + (": relative error " + significant(correctness.relative_error, 3)) +
         ", at most " + significant(correctness.tolerance, 3) + " allowed";
}

// ---- one row of results ---------------------------------------------------------------------------------------------

std::vector<std::string> result_columns() {
  std::vector<std::string> columns = configuration_columns();
  for (const char* column :
       {"nnz", "plan", "registers", "gather_wavefronts", "relative_error", "tolerance", "correct", "step_us",
        "step_low_us", "step_high_us", "exchange_us", "floor_us", "sequence_us", "samples", "fingerprint"}) {
    columns.emplace_back(column);
  }
  return columns;
}

struct Result {
  PlannedNetwork planned;
  std::int64_t nnz = 0;
  std::int64_t gather_wavefronts = 0;  // of the busiest SM
  double conflict_free_us = 0;         // reading the states of all non-zeros of an SM, the samples of the batch only
  Measurement measurement;
};

// What no kernel with this plan's exchange gets below.
double floor_us(const Result& result) {
  return result.measurement.exchange_us.median + result.conflict_free_us;
}

std::vector<std::string> result_cells(const Configuration& configuration, const Result& result) {
  const Measurement& m = result.measurement;
  const auto time = [&](double us) { return m.correct ? significant(us, 6) : ""; };
  const bool has_floor = m.exchange_us.samples > 0;
  std::vector<std::string> cells = configuration_cells(configuration);
  cells.insert(cells.end(),
               {std::to_string(result.nnz), to_string(result.planned.plan), std::to_string(m.registers),
                std::to_string(result.gather_wavefronts), significant(m.relative_error, 4), significant(m.tolerance, 4),
                m.correct ? "1" : "0", time(m.step_us.median), time(m.step_us.low), time(m.step_us.high),
                has_floor ? time(m.exchange_us.median) : "", has_floor ? time(floor_us(result)) : "",
                time(m.sequence_us.median), m.correct ? std::to_string(m.step_us.samples) : "0", m.fingerprint});
  return cells;
}

// A configuration that could not be measured still has its row.
std::vector<std::string> failed_cells(const Configuration& configuration, const std::string& plan) {
  std::vector<std::string> cells = configuration_cells(configuration);
  cells.insert(cells.end(), {"", plan, "", "", "", "", "0", "", "", "", "", "", "", "0", ""});
  return cells;
}

Prepared prepare_row(const Configuration& configuration, const PlannedNetwork& planned,
                     std::shared_ptr<const SparseMatrix> matrix, const MeasureOptions& options) {
  if (!planned.prediction.footprint.fits) {
    throw InputError(describe(planned.network) + ' ' + explain(planned.prediction.footprint));
  }
  return prepare(configuration.network, planned.plan, std::move(matrix), options);
}

// Everything that measure() compiles.
std::vector<CompileRequest> compile_requests(const Network& network, const Plan& plan, const std::string& architecture,
                                             const MeasureOptions& options) {
  std::vector<CompileRequest> requests{compile_request(network, plan, architecture),
                                       compile_order_request(network, plan, architecture)};
  if (options.floor) {
    requests.push_back(compile_request(network, plan, architecture, Work::exchange_only));
  }
  if (options.clocks) {
    requests.push_back(compile_request(network, plan, architecture, Work::clocked));
  }
  return requests;
}

Result measure_one(const Chip& chip, const Prepared& prepared, const PlannedNetwork& planned,
                   const MeasureOptions& options) {
  return {planned, prepared.matrix->nnz(), gather_wavefronts(prepared.layout).busiest_sm,
          conflict_free_reads_us(chip, planned.network, planned.plan), measure(prepared, options)};
}

// ---- many configurations --------------------------------------------------------------------------------------------

int measure_file(const Options& options, const ChipFile& chip, const MeasureOptions& measure_options, Output& output) {
  if (options.given("format") && output.format() != Format::csv) {
    throw InputError("--configurations writes CSV: leave --format out");
  }
  const CsvReader file(options.text("configurations"));
  const Manifest manifest = current_manifest();
  std::optional<OutputFile> manifest_file;
  if (!output.path().empty()) {
    manifest_file.emplace(manifest_path(output.path()));
  }

  struct Job {
    Configuration configuration;
    PlannedNetwork planned;
    std::string problem;
  };
  std::vector<Job> jobs(file.size());
  Progress progress;
  progress.show("planning " + std::to_string(jobs.size()) + " configurations");
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].configuration = read_configuration_row(file, i);
  }
  parallel_for(static_cast<int>(jobs.size()), all_cores(), [&](int i) {
    Job& job = jobs[static_cast<std::size_t>(i)];
    try {
      job.planned = plan_network(chip.chip, job.configuration, row_profile(job.configuration));
      if (is_library(job.planned.plan.family)) {
        throw InputError("a library's times are measured with --plan all");
      }
    } catch (const std::exception& error) {
      job.problem = error.what();
    }
  });
  std::vector<CompileRequest> requests;
  for (const Job& job : jobs) {
    if (!job.problem.empty()) {
      continue;
    }
    std::ranges::move(
        compile_requests(job.configuration.network, job.planned.plan, manifest.architecture, measure_options),
        std::back_inserter(requests));
  }
  // What does not compile here fails again below, where it is reported with its row.
  compile_all(requests, [&](std::size_t done) {
    progress.show("compiling " + std::to_string(done) + " of " + std::to_string(requests.size()));
  });

  output.append(csv_line(result_columns()));
  // Some rows are prepared while another is measured.
  constexpr std::size_t kPreparedAhead = 6;
  std::vector<std::future<Prepared>> prepared(jobs.size());
  const auto begin_row = [&](std::size_t i) {
    if (i < jobs.size() && jobs[i].problem.empty()) {
      prepared[i] = std::async(std::launch::async, [&job = jobs[i], &measure_options] {
        return prepare_row(job.configuration, job.planned, recurrent_matrix(job.configuration), measure_options);
      });
    }
  };
  for (std::size_t i = 0; i < kPreparedAhead; ++i) {
    begin_row(i);
  }
  std::size_t failed = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Job& job = jobs[i];
    progress.show("measuring " + std::to_string(i + 1) + " of " + std::to_string(jobs.size()) + ": " +
                  describe(job.configuration.network));
    begin_row(i + kPreparedAhead);
    std::vector<std::string> cells;
    if (job.problem.empty()) {
      try {
        const Result result = measure_one(chip.chip, prepared[i].get(), job.planned, measure_options);
        cells = result_cells(job.configuration, result);
        if (!result.measurement.correct) {
          job.problem = "wrong: relative error " + significant(result.measurement.relative_error, 3) + ", at most " +
                        significant(result.measurement.tolerance, 3) + " allowed";
        }
      } catch (const std::exception& error) {
        job.problem = error.what();
      }
    }
    if (!job.problem.empty()) {
      ++failed;
      progress.clear();
      std::cerr << file.file() << ": row " << i + 1 << " (" << describe(job.configuration.network)
                << "): " << job.problem << '\n';
    }
    if (cells.empty()) {
      cells = failed_cells(job.configuration, job.planned.plan.sms > 0 ? to_string(job.planned.plan) : "");
    }
    output.append(csv_line(cells));
  }
  output.finish();
  if (manifest_file) {
    manifest_file->write(to_json_text(manifest));
    manifest_file->commit();
  }
  return failed == 0 ? 0 : 1;
}

// ---- one configuration ----------------------------------------------------------------------------------------------

Json to_json(const Timing& timing) {
  return {{"median", rounded(timing.median)},
          {"low", rounded(timing.low)},
          {"high", rounded(timing.high)},
          {"samples", timing.samples}};
}

std::string timing_text(const Timing& timing) {
  return fixed(timing.median, 3) + " us (95 % of " + std::to_string(timing.samples) + ": " + fixed(timing.low, 3) +
         " to " + fixed(timing.high, 3) + ")";
}

// The fastest of each library, then all from fast to slow, then those that refused.
std::string opponents_text(std::vector<OpponentResult> opponents, double our_step_us) {
  std::stable_sort(opponents.begin(), opponents.end(), [](const OpponentResult& a, const OpponentResult& b) {
    return a.ran != b.ran ? a.ran : a.step_us.median < b.step_us.median;
  });
  Table fastest{{"fastest of", "us per step", "times ours", "opponent"}, {}};
  Table all{{"opponent", "us per step", "low", "high", "times ours", "note"}, {}};
  for (const OpponentResult& opponent : opponents) {
    if (!opponent.ran) {
      all.rows.push_back({opponent.name, "", "", "", "", "refused: " + opponent.refusal});
      continue;
    }
    const std::string median = fixed(opponent.step_us.median, 3);
    const std::string ratio = fixed(opponent.step_us.median / our_step_us, 2);
    all.rows.push_back({opponent.name, median, fixed(opponent.step_us.low, 3), fixed(opponent.step_us.high, 3), ratio,
                        opponent.settings + (opponent.note.empty() ? "" : "; " + opponent.note)});
    const std::string library = opponent.name.substr(0, opponent.name.find(' '));
    if (std::none_of(fastest.rows.begin(), fastest.rows.end(), [&](const auto& row) { return row[0] == library; })) {
      fastest.rows.push_back({library, median, ratio, opponent.name});
    }
  }
  return (fastest.rows.empty() ? "" : to_aligned(fastest) + '\n') + to_aligned(all);
}

void add_clocks(const StepClocks& clocks, Report& report) {
  report.json["clocks"] = Json::array();
  report.text += "\nuntil         cycles  slowest warp\n";
  for (std::size_t i = 0; i < kStepMarks.size(); ++i) {
    report.json["clocks"].push_back({{"until", kStepMarks[i]},
                                     {"mean_cycles", rounded(clocks.mean[i])},
                                     {"slowest_warp_cycles", rounded(clocks.slowest[i])}});
    const std::string cycles = fixed(clocks.mean[i], 0), slowest = fixed(clocks.slowest[i], 0);
    report.text += std::string(kStepMarks[i]) + std::string(20 - kStepMarks[i].size() - cycles.size(), ' ') + cycles +
                   std::string(14 - slowest.size(), ' ') + slowest + '\n';
  }
}

Report report_result(const Case& asked, const Result& result, const Manifest& manifest) {
  const Configuration& configuration = asked.configuration;
  const Measurement& m = result.measurement;
  const Network& network = configuration.network;
  const Prediction& prediction = result.planned.prediction;
  const double whole_us = m.sequence_us.median / network.steps;
  Report report;
  report.csv = {result_columns(), {result_cells(configuration, result)}};
  report.json = {{"chip", asked.chip},
                 {"device", manifest.gpu},
                 {"network", to_json(network)},
                 {"plan", to_json(result.planned.plan)},
                 {"nnz", result.nnz},
                 {"registers", m.registers},
                 {"gather_wavefronts", result.gather_wavefronts},
                 {"relative_error", rounded(m.relative_error)},
                 {"tolerance", rounded(m.tolerance)},
                 {"correct", m.correct},
                 {"fingerprint", m.fingerprint}};
  report.text = describe(network) + " on " + manifest.gpu + ", driver " + manifest.driver + ", " + manifest.compiler +
                "\n\nplan       " + to_string(result.planned.plan) + "\nregisters  " + std::to_string(m.registers) +
                " per thread, no spill\ncorrect    " + correctness_text({m.relative_error, m.tolerance, m.correct}) +
                '\n';
  if (!m.correct) {
    return report;
  }
  report.json["step_us"] = to_json(m.step_us);
  const bool has_floor = m.exchange_us.samples > 0;
  if (has_floor) {
    report.json["exchange_us"] = to_json(m.exchange_us);
    report.json["floor_us"] = rounded(floor_us(result));
  }
  report.json["sequence_us"] = to_json(m.sequence_us);
  report.json["sequence_step_us"] = rounded(whole_us);
  report.json["predicted_us"] = rounded(prediction.step_us);
  report.json["predicted_interval_us"] = {rounded(prediction.low_us), rounded(prediction.high_us)};
  report.text += "step       " + timing_text(m.step_us) + ", steady state\n           " + fixed(whole_us, 3) +
                 " us, whole sequence of " + std::to_string(network.steps) + " steps\n";
  if (has_floor) {
    report.text += "floor      " + fixed(floor_us(result), 3) +
                   " us: its exchange alone, measured, and conflict-free loads; the step takes " +
                   fixed(m.step_us.median / floor_us(result), 2) + " times that\n";
  }
  report.text += "model      " + time_text(prediction) + ", off by " +
                 fixed(100 * (prediction.step_us / m.step_us.median - 1), 1) + " %\n";
  if (m.clocks) {
    add_clocks(*m.clocks, report);
  }
  if (m.opponents.empty()) {
    return report;
  }
  report.json["opponents"] = Json::array();
  for (const OpponentResult& opponent : m.opponents) {
    Json json{{"name", opponent.name}, {"ran", opponent.ran}, {"preparation_s", rounded(opponent.preparation_s, 3)}};
    if (opponent.ran) {
      json["step_us"] = to_json(opponent.step_us);
      json["ratio"] = rounded(opponent.step_us.median / whole_us);
      json["settings"] = opponent.settings;
      if (!opponent.note.empty()) {
        json["note"] = opponent.note;
      }
    } else {
      json["refusal"] = opponent.refusal;
    }
    report.json["opponents"].push_back(std::move(json));
  }
  report.text +=
      "\nWhole sequence / steps on both sides, in turns in one run:\n\n" + opponents_text(m.opponents, whole_us);
  return report;
}

int measure_network(const ChipFile& chip, const Configuration& configuration, const MeasureOptions& options,
                    Output& output) {
  const Manifest manifest = current_manifest();
  warn_of_other_chip(chip.chip, manifest);
  const auto matrix = recurrent_matrix(configuration);
  const PlannedNetwork planned = plan_network(chip.chip, configuration, row_profile(configuration, *matrix));
  auto preparing = std::async(std::launch::async, [&] { return prepare_row(configuration, planned, matrix, options); });
  if (planned.prediction.footprint.fits) {  // what does not compile here fails again where it is needed
    compile_all(compile_requests(configuration.network, planned.plan, manifest.architecture, options),
                [](std::size_t) {});
  }
  const Result result = measure_one(chip.chip, preparing.get(), planned, options);
  output.write(report_result({chip.chip.name, configuration, planned}, result, manifest));
  if (!output.path().empty() && output.format() == Format::csv) {
    OutputFile manifest_file(manifest_path(output.path()));
    manifest_file.write(to_json_text(manifest));
    manifest_file.commit();
  }
  return result.measurement.correct ? 0 : 1;
}

// ---- interpreting ---------------------------------------------------------------------------------------------------

int interpret_network(const ChipFile& chip, const Configuration& configuration, const MeasureOptions& options,
                      Output& output) {
  const auto matrix = recurrent_matrix(configuration);
  const PlannedNetwork planned = plan_network(chip.chip, configuration, row_profile(configuration, *matrix));
  options.say("executing " + describe(planned.network));
  const Prepared prepared = prepare_row(configuration, planned, matrix, options);
  const Interpretation interpretation = interpret(prepared, options);
  const Correctness& correctness = interpretation.correctness;
  Report report;
  report.json = {{"chip", chip.chip.name},
                 {"network", to_json(planned.network)},
                 {"plan", to_json(planned.plan)},
                 {"nnz", matrix->nnz()},
                 {"steps_checked", options.check_steps},
                 {"thread_instructions", interpretation.lane_instructions},
                 {"relative_error", rounded(correctness.relative_error)},
                 {"tolerance", rounded(correctness.tolerance)},
                 {"correct", correctness.correct}};
  report.csv.columns = configuration_columns();
  report.csv.rows = {configuration_cells(configuration)};
  report.csv.columns.insert(report.csv.columns.end(), {"plan", "relative_error", "tolerance", "correct"});
  report.csv.rows[0].insert(report.csv.rows[0].end(),
                            {to_string(planned.plan), significant(correctness.relative_error, 4),
                             significant(correctness.tolerance, 4), correctness.correct ? "1" : "0"});
  report.text = describe(planned.network) + ", " + std::to_string(options.check_steps) + " steps interpreted, " +
                compiler_version() + "\n\nplan       " + to_string(planned.plan) + "\nexecuted   " +
                std::to_string(interpretation.lane_instructions) + " instructions of single threads\ncorrect    " +
                correctness_text(correctness) + '\n';
  output.write(report);
  return correctness.correct ? 0 : 1;
}

// ---- capturing ------------------------------------------------------------------------------------------------------

int capture_network(const ChipFile& chip, const Configuration& configuration, const std::string& path, bool interpreted,
                    Output& output) {
  const PlannedNetwork planned = plan_network(chip.chip, configuration, row_profile(configuration));
  const PlanTrace generated(make_layout(planned.network, planned.plan, *recurrent_matrix(configuration)),
                            PlanTrace::kAllRegisters, Traced::whole, Issued::as_written);
  const std::vector<BlockTrace> captured =
      interpreted ? capture_interpreted_step(generated.layout()) : capture_step(generated.layout());
  OutputFile file(path);
  file.write(compact_trace_header(generated.blocks()));
  std::size_t accesses = 0;
  std::optional<std::string> difference;
  for (int sm = 0; sm < generated.blocks(); ++sm) {
    const BlockTrace& block = captured[static_cast<std::size_t>(sm)];
    file.write(encode_block(block));
    for (const WarpTrace& warp : block.warps) {
      accesses += warp.instructions.size();
    }
    if (!difference) {
      if (const auto found = first_difference(generated.block(sm), block)) {
        difference = "SM " + std::to_string(sm) + ", " + *found;
      }
    }
  }
  file.commit();
  Report report;
  report.json = {{"plan", to_string(planned.plan)},
                 {"accesses", accesses},
                 {"equal", !difference},
                 {"difference", difference.value_or("")}};
  report.csv.columns = configuration_columns();
  report.csv.rows = {configuration_cells(configuration)};
  report.csv.columns.insert(report.csv.columns.end(), {"plan", "accesses"});
  report.csv.rows[0].insert(report.csv.rows[0].end(), {to_string(planned.plan), std::to_string(accesses)});
  report.text = std::to_string(accesses) + " accesses to shared memory in one step, " +
                (difference ? "not those that are generated: " + *difference : "as they are generated") + '\n';
  output.write(report);
  return difference ? 1 : 0;
}

#endif

}  // namespace

int run_measure(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto options = parse_options(
      verb, arguments,
      {chip_options(), network_options(), plan_options(), whole_plan_option(), measure_options(), output_options()});
  if (!options) {
    return 0;
  }
#ifdef ONCHIP_HAS_CUDA
  refuse_contradictions(*options);
  const ChipFile chip = read_chip(*options);
  MeasureOptions measure_options;
  measure_options.repeats = static_cast<int>(options->whole("repeats", 1, 100000));
  measure_options.floor = options->flag("floor");
  measure_options.clocks = options->flag("clocks");
  measure_options.opponents = options->flag("opponents");
  Progress progress;
  measure_options.say = [&](const std::string& what) { progress.show(what); };
  if (options->given("configurations")) {
    Output output(*options);
    return compares_families(*options) ? measure_families_file(*options, chip, measure_options, output)
                                       : measure_file(*options, chip, measure_options, output);
  }
  const Configuration configuration = read_configuration(*options, /*needs_hidden=*/true, /*takes_all_families=*/true);
  measure_options.seed = configuration.seed;
  const bool wishes_library =
      is_library(configuration.plan ? configuration.plan->family
                                    : configuration.wishes.family.value_or(Family::sparse_persistent));
  if (wishes_library) {
    for (const char* what : {"opponents", "floor", "clocks", "capture", "interpret", "compile-only"}) {
      if (options->given(what)) {
        throw InputError("--" + std::string(what) + " takes a plan of a kernel, not a library's");
      }
    }
  }
  Output output(*options);
  if (options->given("capture")) {
    return capture_network(chip, configuration, options->text("capture"), options->flag("interpret"), output);
  }
  if (options->flag("interpret")) {
    return interpret_network(chip, configuration, measure_options, output);
  }
  if (wishes_library || compares_families(*options)) {
    return measure_families_once(chip, configuration, measure_options, output);
  }
  return options->flag("compile-only") ? compile_only(*options, chip, configuration, output)
                                       : measure_network(chip, configuration, measure_options, output);
#else
  throw InputError("built without CUDA: measure needs a CUDA toolkit when onchip is configured");
#endif
}

}  // namespace onchip
