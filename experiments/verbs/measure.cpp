// SPDX-License-Identifier: Apache-2.0
// onchip measure: plans as CUDA kernels, on this machine's GPU; without one as far as kernel_checks.hpp goes.
#include "experiments/command/plan_options.hpp"
#include "experiments/command/report.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/feed_forward/questions.hpp"
#include "experiments/measurement/manifest.hpp"
#include "experiments/training/answers.hpp"
#include "model/answer/constraint_words.hpp"
#include "model/base/error.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/command/progress.hpp"
#include "experiments/feed_forward/ways_report.hpp"
#include "experiments/measurement/compilation.hpp"
#include "experiments/measurement/kernel_checks.hpp"
#include "experiments/measurement/measurement.hpp"
#include "experiments/reports/families.hpp"
#include "experiments/reports/feed_forward.hpp"
#include "experiments/reports/measure_report.hpp"
#include "experiments/reports/whole_network.hpp"
#include "experiments/training/measure.hpp"
#include "kernels/feed_forward/network/planned_network.hpp"
#include "kernels/recurrent/program.hpp"
#include "model/base/parallel.hpp"
#include "model/sparse/price.hpp"
#endif

#include <algorithm>
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
       "family, storage, plan, or weights and tensor: a file beside it) and write CSV rows, with a manifest beside the "
       "file of -o. With --plan all a row for every family.")
      ("baselines", "Time cuDNN, cuBLAS and cuSPARSE at the same size in turns with the kernel; what each computes is noted. With "
       "--network the method of 2020, cuSPARSE and cuBLAS, layer by layer.")
      ("floor", "Time the plan's exchange alone, in turns with the kernel: with conflict-free loads, what it cannot beat.")
      ("clocks", "Show where the time of a step goes: the cycles from each of its points to the next.")
      ("capture", po::value<std::string>()->value_name("FILE"),
       "Write down every access to shared memory of one step instead, as a compact trace, and compare it with what "
       "simulate generates.")
      ("repeats", po::value<std::string>()->value_name("N")->default_value("15"), "Take this many samples.")
      ("interpret", "Check the results without a GPU: execute the kernel's PTX, thread by thread, on this CPU. No times. With --capture "
       "the accesses of that.")
      ("compile-only", "Compile without a GPU, and report registers and spills.")
      ("write", po::value<std::string>()->value_name("FILE"),
       "With --compile-only write the kernel: FILE.cu (one source, for nvcc), FILE.ptx or FILE.cubin; beside it FILE.layout, the "
       "weights as it loads them, and FILE.json, how it is launched. examples/run_kernel.cpp runs it.")
      ("arch", po::value<std::string>()->value_name("SM"),
       "Compile for this architecture, with --compile-only (default: the chip's).")
      ("plan-forward", po::value<std::string>()->value_name("FIELDS"),
       "With --mode train change fields of the forward recurrence's plan: \"sub_batches=2 warps=16\". A file of --configurations has "
       "them as columns plan_forward and plan_backward.")
      ("plan-backward", po::value<std::string>()->value_name("FIELDS"), "The same of the backward recurrence's.");
  // clang-format on
  return group;
}

#ifdef ONCHIP_HAS_CUDA

bool compares_families(const Options& options) {
  return options.text("plan") == kAllPlans;
}

void refuse_contradictions(const Options& options) {
  const bool trains = options.text("mode") == "train";
  for (const char* what : {"plan-forward", "plan-backward"}) {
    if (options.given(what) && (!trains || options.given("configurations"))) {
      throw InputError("--" + std::string(what) + " is of one training step: it needs --mode train" +
                       (trains ? ", and rows of a file say it themselves" : ""));
    }
  }
  for (const char* what : {"network", "floor", "clocks", "capture", "interpret", "write"}) {
    if (trains && options.given(what)) {
      throw InputError("--" + std::string(what) + " is of inference: leave it out with --mode train");
    }
  }
  for (const char* what : {"baselines", "floor", "clocks", "repeats", "compile-only"}) {
    if (options.flag("interpret") && options.given(what)) {
      throw InputError("--" + std::string(what) +
                       " contradicts --interpret: nothing runs on a GPU, and nothing is timed");
    }
  }
  for (const char* what : {"baselines", "floor", "clocks", "capture", "interpret", "compile-only"}) {
    if (compares_families(options) && options.given(what)) {
      throw InputError("--" + std::string(what) + " takes one plan, not 'all'");
    }
  }
  if (read_stack(options) && !trains) {
    for (const char* what :
         {"plan", "baselines", "floor", "clocks", "capture", "interpret", "compile-only", "configurations"}) {
      if (options.given(what) && (what != std::string_view("plan") || compares_families(options))) {
        throw InputError("--layers, --bidirectional and --input time one whole network with one plan: leave --" +
                         std::string(what) + " out");
      }
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
    if (!trains && (options.flag("baselines") || options.flag("compile-only") || options.flag("interpret") ||
                    options.given("capture"))) {
      throw InputError(
          "--baselines, --compile-only, --interpret and --capture take one configuration, not a file of them");
    }
  }
  for (const char* what : {"baselines", "capture"}) {
    if (options.given(what) && options.flag("compile-only")) {
      throw InputError("--" + std::string(what) + " contradicts --compile-only: nothing runs");
    }
  }
  for (const char* what : {"arch", "write"}) {
    if (options.given(what) && !options.flag("compile-only")) {
      throw InputError("--" + std::string(what) + " needs --compile-only: a measurement is on this machine's GPU");
    }
  }
}

// Everything that measure() compiles.
std::vector<CompileRequest> compile_requests(const Recurrent& network, const Plan& plan,
                                             const std::string& architecture, const MeasureOptions& options) {
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

MeasuredNetwork measure_one(const Chip& chip, const Prepared& prepared, const PlannedNetwork& planned,
                            const MeasureOptions& options) {
  // Plans whose state goes from L2 to registers read none from shared memory.
  const double reads_us = std::visit(
      [&](const auto& layout) {
        if constexpr (requires { conflict_free_reads_us(chip, layout.geometry); }) {
          return conflict_free_reads_us(chip, layout.geometry);
        } else {
          return 0.0;
        }
      },
      prepared.layout);
  return {planned, prepared.matrix->nnz(), gather_wavefronts(prepared.layout).busiest_sm, reads_us,
          measure(prepared, options)};
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
    ChosenPlan planned;
    bool is_planned = false;
    std::string problem;
  };
  std::vector<Job> jobs(file.size());
  Progress progress;
  progress.show("planning and compiling " + std::to_string(jobs.size()) + " configurations");
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].configuration = read_configuration_row(file, i);
  }
  parallel_for(static_cast<int>(jobs.size()), all_cores(), [&](int i) {
    Job& job = jobs[static_cast<std::size_t>(i)];
    try {
      job.planned = compiled_plan(chip.chip, job.configuration, row_profile(job.configuration), manifest.architecture);
      job.is_planned = true;
      if (!is_on_chip(job.planned.plan)) {
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
  const auto ahead = static_cast<std::size_t>(all_cores());
  std::vector<std::future<Prepared>> prepared(jobs.size());
  const auto begin_row = [&](std::size_t i) {
    if (i < jobs.size() && jobs[i].problem.empty()) {
      prepared[i] = std::async(std::launch::async, [&job = jobs[i], &measure_options] {
        return prepare_row(job.configuration, job.planned, recurrent_matrix(job.configuration), measure_options);
      });
    }
  };
  for (std::size_t i = 0; i < ahead; ++i) {
    begin_row(i);
  }
  std::size_t failed = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Job& job = jobs[i];
    progress.show("measuring " + std::to_string(i + 1) + " of " + std::to_string(jobs.size()) + ": " +
                  describe(job.configuration.network));
    begin_row(i + ahead);
    std::vector<std::string> cells;
    if (job.problem.empty()) {
      try {
        const MeasuredNetwork result = measure_one(chip.chip, prepared[i].get(), job.planned, measure_options);
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
      cells = failed_cells(job.configuration, job.is_planned ? to_string(job.planned.plan) : "");
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

int measure_network(const ChipFile& chip, const Configuration& configuration, const MeasureOptions& options,
                    Output& output) {
  const Manifest manifest = current_manifest();
  warn_of_other_chip(chip.chip, manifest);
  const auto matrix = recurrent_matrix(configuration);
  const ChosenPlan planned =
      compiled_plan(chip.chip, configuration, row_profile(configuration, *matrix), manifest.architecture);
  auto preparing = std::async(std::launch::async, [&] { return prepare_row(configuration, planned, matrix, options); });
  if (planned.prediction.footprint.fits) {  // what does not compile here fails again where it is needed
    compile_all(compile_requests(configuration.network, planned.plan, manifest.architecture, options),
                [](std::size_t) {});
  }
  const MeasuredNetwork result = measure_one(chip.chip, preparing.get(), planned, options);
  output.write(report_result({chip.chip.name, configuration, planned}, result, manifest));
  if (!output.path().empty() && output.format() == Format::csv) {
    OutputFile manifest_file(manifest_path(output.path()));
    manifest_file.write(to_json_text(manifest));
    manifest_file.commit();
  }
  return result.measurement.correct ? 0 : 1;
}

#endif

}  // namespace

int run_measure(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto options =
      parse_options(verb, arguments,
                    {chip_options(), network_options(), whole_network_options(), plan_options(), whole_plan_option(),
                     feed_forward_options({"images", "gpus", "split", "image-order"}), training_options(),
                     measure_options(), output_options()});
  if (!options) {
    return 0;
  }
#ifdef ONCHIP_HAS_CUDA
  const bool is_feed_forward =
      asks_feed_forward(*options, {network_options(), whole_network_options(), plan_options()});
  const bool trains_file = options->text("mode") == "train" && options->given("configurations");
  std::optional<AskedTraining> training;
  if (!trains_file && asks_training(*options)) {
    training = read_training(*options);
  }
  refuse_contradictions(*options);
  const ChipFile chip = read_chip(*options);
  MeasureOptions measure_options;
  measure_options.repeats = static_cast<int>(options->whole("repeats", 1, 100000));
  measure_options.floor = options->flag("floor");
  measure_options.clocks = options->flag("clocks");
  measure_options.baselines = options->flag("baselines");
  Progress progress;
  measure_options.say = [&](const std::string& what) { progress.show(what); };
  if (training || trains_file) {
    return measure_training(*options, chip, std::move(training), measure_options);
  }
  if (is_feed_forward) {
    refuse_beside(*options, "network", {},
                  {"configurations", "floor", "clocks", "capture", "interpret", "write", "arch"});
    const std::string network = options->text("network");
    const std::string images = options->given("images") ? options->text("images") : "digits:60000";
    const std::string plan = options->given("plan") ? options->text("plan") : "";
    const bool is_staged = plan.starts_with(StagedPlan::kName);
    const bool are_ways = is_staged || measure_options.baselines;
    if (is_staged) {
      parse_staged_plan(plan);
    } else {
      check_family(plan);
    }
    if (are_ways) {
      refuse_beside(*options, measure_options.baselines ? "baselines" : "plan staged", {},
                    {"gpus", "split", "image-order", "compile-only"});
    }
    Output output(*options);
    const ImagesOnGpus on_gpus{
        .gpus = options->given("gpus") ? static_cast<int>(options->whole("gpus", 1, 1024)) : 1,
        .split = options->given("split")
                     ? static_cast<Split>(options->choice("split", options->text("split"), {"dealt", "contiguous"}))
                     : Split::dealt,
        .survivors_first = options->given("image-order") && options->choice("image-order", options->text("image-order"),
                                                                            {"given", "survivors-first"}) == 1};
    if (are_ways) {
      return measure_ways(chip, network, images, plan, measure_options, output);
    }
    return options->flag("compile-only")
               ? compile_feed_forward(chip, network, images, plan, output)
               : measure_feed_forward(chip, network, images, on_gpus, plan, measure_options, output);
  }
  if (options->given("configurations")) {
    Output output(*options);
    return compares_families(*options) ? measure_families_file(*options, chip, measure_options, output)
                                       : measure_file(*options, chip, measure_options, output);
  }
  const Configuration configuration = read_configuration(*options, /*needs_hidden=*/true, /*takes_all_families=*/true);
  measure_options.seed = configuration.seed;
  const bool is_of_library = !configuration.family().empty() && !find_family(configuration.family()).is_on_chip;
  if (is_of_library) {
    for (const char* what : {"baselines", "floor", "clocks", "capture", "interpret", "compile-only"}) {
      if (options->given(what)) {
        throw InputError("--" + std::string(what) + " takes a plan of a kernel, not a library's");
      }
    }
  }
  Output output(*options);
  if (const std::optional<Stack> stack = read_stack(*options)) {
    return measure_whole_network(chip, configuration, *stack, measure_options, output);
  }
  if (options->given("capture")) {
    return capture_network(chip, configuration, options->text("capture"), options->flag("interpret"), output);
  }
  if (options->flag("interpret")) {
    return interpret_network(chip, configuration, measure_options, output);
  }
  if (is_of_library || compares_families(*options)) {
    return measure_families_once(chip, configuration, measure_options, output);
  }
  return options->flag("compile-only") ? compile_only(*options, chip, configuration, output)
                                       : measure_network(chip, configuration, measure_options, output);
#else
  throw InputError("built without CUDA: measure needs a CUDA toolkit when onchip is configured");
#endif
}

}  // namespace onchip
