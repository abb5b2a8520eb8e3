// SPDX-License-Identifier: Apache-2.0
// onchip measure: plans as CUDA kernels, on this machine's GPU; without one whether they compile, compute the right
// results on the CPU, and touch the addresses that the simulator generates.
#include "experiments/command/configuration_rows.hpp"
#include "experiments/command/plan_options.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/feed_forward/questions.hpp"
#include "experiments/measurement/manifest.hpp"
#include "experiments/stream/streams.hpp"
#include "experiments/training/answers.hpp"
#include "model/answer/constraint_words.hpp"
#include "model/answer/feed_forward/feed_forward.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/command/progress.hpp"
#include "experiments/feed_forward/measure.hpp"
#include "experiments/measurement/capture.hpp"
#include "experiments/measurement/compilation.hpp"
#include "experiments/measurement/interpreted/interpret.hpp"
#include "experiments/measurement/measured_plans.hpp"
#include "experiments/measurement/measured_rows.hpp"
#include "experiments/measurement/measurement.hpp"
#include "experiments/reports/measure_report.hpp"
#include "experiments/reports/whole_network.hpp"
#include "experiments/training/measure.hpp"
#include "experiments/training/tune.hpp"
#include "kernels/recurrent/kernel_files.hpp"
#include "kernels/recurrent/program.hpp"
#include "kernels/runtime/cubin.hpp"
#include "model/base/is_there.hpp"
#include "model/base/parallel.hpp"
#include "model/chip/instructions.hpp"
#include "model/dense/price.hpp"
#include "model/sparse/instructions.hpp"
#include "model/workload/reference.hpp"
#include "sim/sparse/plan_trace.hpp"
#include "sim/trace/capture_difference.hpp"
#include "sim/trace/compact_trace.hpp"
#endif

#include <algorithm>
#include <array>
#include <filesystem>
#include <future>
#include <iterator>
#include <optional>
#include <utility>

namespace onchip {
namespace {

OptionGroup measure_options() {
  return option_group(
      "Measurement",
      {{"configurations", "FILE",
        "Measure every row of a CSV file (cell, hidden, batch, density, precision, mask, seed, steps and, if wanted, "
        "family, storage, plan, or weights and tensor: a file beside it) and write CSV rows, with a manifest beside "
        "the file of -o. With --plan all a row for every family."},
       {"baselines", "",
        "Time cuDNN, cuBLAS and cuSPARSE at the same size, interleaved with the kernel; what each computes is noted. "
        "With --network the method of 2020, cuSPARSE and cuBLAS, layer by layer."},
       {"no-check", "",
        "With --network leave the reference out, which takes a minute for the largest: nothing says then whether "
        "results are right."},
       {"floor", "",
        "Time the plan's exchange alone, interleaved with the kernel: with conflict-free loads, what it cannot beat."},
       {"clocks", "", "Show where the time of a step goes: the cycles from each of its points to the next."},
       {"capture", "FILE",
        "Write down every access to shared memory of one step instead, as a compact trace, and compare it with what "
        "simulate generates."},
       {"repeats", "N",
        "Take at most this many samples: fewer once the 95 % interval of the median is within 1 % of it.", "30"},
       {"columns", "", "Say instead what the columns of all answers mean, as rows of their own."},
       {"interpret", "",
        "Check the results without a GPU: execute the kernel's PTX, thread by thread, on this CPU. No times. With "
        "--capture the accesses of that."},
       {"compile-only", "", "Compile without a GPU, and report registers and spills."},
       {"write", "FILE",
        "With --compile-only write the kernel: FILE.cu (one source, for nvcc), FILE.ptx or FILE.cubin; beside it "
        "FILE.layout, the weights as it loads them, and FILE.json, how it is launched. examples/run_kernel.cpp runs "
        "it."},
       {"arch", "SM", "Compile for this architecture, with --compile-only (default: the chip's)."},
       {"plan-forward", "FIELDS",
        "With --mode train change fields of the forward recurrence's plan: \"sub_batches=2 warps=16\". A file of "
        "--configurations has them as columns plan_forward and plan_backward."},
       {"plan-backward", "FIELDS", "The same of the backward recurrence's."}});
}

#ifdef ONCHIP_HAS_CUDA

bool compares_families(const Options& options) {
  return options.text("plan") == kAllPlans;
}

void refuse_contradictions(const Options& options) {
  const bool trains = options.text("mode") == "train", are_families = compares_families(options);
  options.refuse({"plan-forward", "plan-backward"},
                 std::string("is of one training step: it needs --mode train") +
                     (trains ? ", and rows of a file say it themselves" : ""),
                 !trains || options.given("configurations"));
  options.refuse({"network", "floor", "clocks", "capture", "interpret", "write"},
                 "is of inference: leave it out with --mode train", trains);
  options.refuse({"no-check"}, "needs --network", !options.given("network"));
  options.refuse({"baselines", "floor", "clocks", "repeats", "compile-only"},
                 "contradicts --interpret: nothing runs on a GPU, and nothing is timed", options.flag("interpret"));
  options.refuse({"baselines", "floor", "clocks", "capture", "interpret", "compile-only"}, "takes one plan, not 'all'",
                 are_families);
  if (read_stack(options) && !trains) {
    for (const char* what :
         {"plan", "baselines", "floor", "clocks", "capture", "interpret", "compile-only", "configurations"}) {
      options.refuse({what},
                     "is of one layer, and --layers, --bidirectional and --input time one whole network with one "
                     "plan: leave --" +
                         std::string(what) + " out",
                     what != std::string_view("plan") || are_families);
    }
  }
  options.refuse({"family"}, "contradicts --plan all, which compares them", are_families);
  if (options.given("configurations")) {
    std::vector<std::string> of_rows = names_of({network_options(), plan_options(), whole_plan_option()});
    std::erase(of_rows, are_families ? "plan" : "");
    options.refuse(of_rows, "contradicts --configurations: the rows of the file say it");
    options.refuse({"baselines", "compile-only", "interpret", "capture"}, "takes one configuration, not a file of them",
                   !trains);
  }
  options.refuse({"baselines", "capture"}, "contradicts --compile-only: nothing runs", options.flag("compile-only"));
  options.refuse({"arch", "write"}, "needs --compile-only: a measurement is on this machine's GPU",
                 !options.flag("compile-only"));
}

// ---- without times: each writes its answer and returns the exit status ----------------------------------------------

// What the model counts of a kernel.
struct Loop {
  int weights_per_thread = 0;  // in registers
  double instructions = 0;     // of a step, of one warp
};
Loop loop_of(const Recurrent& network, const RecurrentPlan& plan) {
  return std::visit(
      [&](const auto& of_family) -> Loop {
        if constexpr (requires { step_instructions(geometry(network, of_family)); }) {
          const auto shape = geometry(network, of_family);
          return {shape.register_weights(), step_instructions(shape)};
        } else {
          throw InputError(std::string(of_family.kName) + (of_family.kIsOnChip
                                                               ? " has no count of its instructions: it is run whole"
                                                               : " is no kernel to compile"));
        }
      },
      plan);
}

// What a run of the written kernel should give: the first sample's first units after some steps from a state of zeros,
// with every element of the input the same.
Json check_of(const Recurrent& network, const SparseMatrix& matrix) {
  constexpr int kUnits = 8;
  const int steps = std::min(4, network.steps);
  constexpr float kInput = 0.5f;
  const std::vector<float> initial(static_cast<std::size_t>(network.hidden) * network.batch);
  const std::vector<float> input(static_cast<std::size_t>(steps) * network.rows() * network.batch, kInput);
  const std::vector<double> states =
      reference_states(matrix, network.cell, network.precision,
                       {.batch = network.batch, .steps = steps, .initial = initial, .input = input})
          .final_state;
  Json values = Json::array();
  for (int unit = 0; unit < std::min(kUnits, network.hidden); ++unit) {
    values.push_back(rounded(states[static_cast<std::size_t>(unit) * network.batch]));
  }
  return {{"input", kInput}, {"steps", steps}, {"states", std::move(values)}, {"tolerance", 0.02}};
}

// The files of --write KERNEL.cu: the kernel, KERNEL.layout and KERNEL.json. Opened before any long work. What is not
// named is replaced only where it is of a kernel that was written before.
class WrittenKernel {
 public:
  explicit WrittenKernel(const std::filesystem::path& path)
      : path_(path), kernel_(path), layout_(own_beside(path, ".layout")), json_(own_beside(path, ".json")) {}

  static std::filesystem::path beside(std::filesystem::path path, const char* extension) {
    return path.replace_extension(extension);
  }

  void write(const Configuration& configuration, const PlannedNetwork& planned, const CompileRequest& request,
             const CompiledKernel& kernel) {
    const auto matrix = recurrent_matrix(configuration);
    const RecurrenceProgram program =
        make_uncompiled_program(make_layout(planned.network, planned.plan, *matrix), {}, request.architecture);
    const KernelLayout layout = kernel_layout(program, planned.network.steps);
    const std::string json_name = beside(path_, ".json").filename().string();
    if (path_.extension() == ".cubin") {
      kernel_.write({kernel.cubin.data(), kernel.cubin.size()});
    } else if (path_.extension() == ".ptx") {
      kernel_.write(kernel_ptx(request, kernel));
    } else {
      kernel_.write(kernel_source(request, kernel,
                                  std::string(request.name) + " of onchip for " + describe(planned.network) +
                                      ", launched as " + json_name + " says",
                                  path_.filename().string()));
    }
    layout_.write({reinterpret_cast<const char*>(layout.bytes.data()), layout.bytes.size()});
    Json json{{"network", to_json(planned.network)},
              {"plan", to_json(planned.plan)},
              {"architecture", request.architecture},
              {"compiler", compiler_version()},
              {"command", nvcc_command(request, kernel)},
              {"registers", kernel.resources.registers},
              {"file", beside(path_, ".layout").filename().string()}};
    json.update(layout.description);
    json["check"] = check_of(planned.network, *matrix);
    json_.write(json_text(versioned(json)));
    kernel_.commit();
    layout_.commit();
    json_.commit();
  }

 private:
  static std::filesystem::path own_beside(const std::filesystem::path& path, const char* extension) {
    const std::filesystem::path file = beside(path, extension), json = beside(path, ".json");
    if (is_there(file)) {
      const Json of = is_there(json) ? parse_json(InputFile(json).bytes(), json.string()) : Json();
      if (!of.is_object() || of.value("file", Json()) != beside(path, ".layout").filename().string()) {
        throw InputError(file.string() +
                         ": there is such a file, but no written kernel's: move it away, or choose another name");
      }
    }
    return file;
  }

  std::filesystem::path path_;
  OutputFile kernel_, layout_, json_;
};

void open_written(std::optional<WrittenKernel>& written, const Options& options, const Output& output) {
  if (!options.given("write")) {
    return;
  }
  const std::filesystem::path path = options.text("write"), extension = path.extension();
  if (extension != ".cu" && extension != ".ptx" && extension != ".cubin") {
    throw InputError("--write: found '" + path.string() + "': expected a file name that ends in .cu, .ptx or .cubin");
  }
  for (const char* other : {extension.c_str(), ".layout", ".json"}) {
    if (output.path() == WrittenKernel::beside(path, other)) {
      throw InputError("-o: found '" + output.path().string() + "', which --write writes: expected another file");
    }
  }
  written.emplace(path);
}

// For --arch, or else the chip's own architecture. Throws InputError for far more weights than a thread can hold.
int compile_only(const Options& options, const ChipFile& chip, const Configuration& configuration, Output& output) {
  const std::string architecture = options.given("arch") ? options.text("arch") : chip.chip.architecture;
  if (architecture.empty()) {
    throw InputError("no compiler target is known for the " + chip.chip.name + ": expected --arch sm_NN");
  }
  std::optional<WrittenKernel> written;
  open_written(written, options, output);
  const PlannedNetwork planned = plan_network(chip.chip, configuration, row_profile(configuration));
  // A little more than a thread can hold is worth knowing: how it spills. Far more keeps the compiler busy for minutes.
  constexpr int kMostWeights = 1024;
  const auto [weights, predicted_instructions] = loop_of(planned.network, planned.plan);
  if (weights > kMostWeights) {
    throw InputError(describe(planned.network) + " asks for " + std::to_string(weights) +
                     " weights per thread: at most " + std::to_string(kMostWeights) + " are compiled");
  }
  const CompileRequest request = compile_request(planned.network, planned.plan, architecture);
  const CompiledKernel kernel = compile(request);
  const ResourceReport& compiled = kernel.resources;
  const std::int64_t instructions = code_bytes(kernel.cubin, request.name) / kInstructionBytes;
  const double predicted = planned.prediction.footprint.resources[static_cast<std::size_t>(Resource::registers)].used;
  Report report;
  report.json = {{"chip", chip.chip.name},
                 {"network", to_json(planned.network)},
                 {"plan", to_json(planned.plan)},
                 {"architecture", architecture},
                 {"compiler", compiler_version()},
                 {"registers", compiled.registers},
                 {"predicted_registers", predicted},
                 {"spill_bytes", compiled.spill_bytes},
                 {"weights_per_thread", weights},
                 {"fingerprint", kernel.fingerprint},
                 {"code_fingerprint", kernel.code_fingerprint},
                 {"instructions", instructions},
                 {"predicted_step_instructions", rounded(predicted_instructions)}};
  report.csv.columns = configuration_columns();
  report.csv.rows = {configuration_cells(configuration)};
  const std::vector<std::pair<std::string, std::string>> values{
      {"architecture", architecture},
      {"registers", std::to_string(compiled.registers)},
      {"predicted_registers", fixed(predicted, 0)},
      {"spill_bytes", std::to_string(compiled.spill_bytes)},
      {"weights_per_thread", std::to_string(weights)},
      {"instructions", std::to_string(instructions)},
      {"predicted_step_instructions", fixed(predicted_instructions, 0)},
      {"fingerprint", kernel.fingerprint},
      {"code_fingerprint", kernel.code_fingerprint},
      {"plan", to_string(planned.plan)}};
  constexpr std::size_t kColumn = 28;
  for (const auto& [column, value] : values) {
    report.csv.columns.push_back(column);
    report.csv.rows[0].push_back(value);
    report.text += column + std::string(kColumn - column.size(), ' ') + value + '\n';
  }
  report.text = describe(planned.network) + " for " + architecture + ", " + compiler_version() + "\n\n" + report.text;
  if (written) {
    written->write(configuration, planned, request, kernel);
  }
  output.write(report);
  return compiled.spill_bytes == 0 ? 0 : 1;
}

// Some steps of the kernel's PTX, executed on the CPU, against the reference.
int interpret_network(const ChipFile& chip, const Configuration& configuration, const MeasureOptions& options,
                      Output& output) {
  const auto matrix = recurrent_matrix(configuration);
  const PlannedNetwork planned = plan_network(chip.chip, configuration, row_profile(configuration, *matrix));
  options.say("executing " + describe(planned.network));
  require_fit(planned);
  const Prepared prepared = prepare(configuration.network, planned.plan, matrix, options);
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
                             significant(correctness.tolerance, 4), truth(correctness.correct)});
  report.text = describe(planned.network) + ", " + std::to_string(options.check_steps) +
                " steps interpreted to check the results (--steps is for timing), " + compiler_version() +
                "\n\nplan       " + to_string(planned.plan) + "\nexecuted   " +
                std::to_string(interpretation.lane_instructions) + " instructions of single threads\ncorrect    " +
                correctness_text(correctness) + '\n';
  output.write(report);
  return correctness.correct ? 0 : 1;
}

// The accesses to shared memory of one step, as the kernel writes them down, into the file `path`.
int capture_network(const ChipFile& chip, const Configuration& configuration, const std::string& path, bool interpreted,
                    Output& output) {
  const PlannedNetwork planned = plan_network(chip.chip, configuration, row_profile(configuration));
  const PlanTrace generated(replayable(make_layout(planned.network, planned.plan, *recurrent_matrix(configuration))),
                            PlanTrace::kAllRegisters, Traced::whole, Issued::as_written);
  const std::vector<BlockTrace> captured =
      interpreted ? capture_interpreted_step(Layout(generated.layout())) : capture_step(Layout(generated.layout()));
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

// ---- recurrent networks ---------------------------------------------------------------------------------------------

std::vector<Configuration> configurations_of_file(const Options& options) {
  const CsvReader file(options.text("configurations"));
  for (const char* column : {"plan", "family"}) {
    if (compares_families(options) && file.has(column)) {
      throw InputError(file.file() + ": the column '" + column + "' contradicts --plan all");
    }
  }
  std::vector<Configuration> configurations;
  for (std::size_t i = 0; i < file.size(); ++i) {
    configurations.push_back(read_configuration_row(file, i));
  }
  return configurations;
}

int measure_each(const std::vector<Configuration>& configurations, const std::string& file, const Options& options,
                 const ChipFile& chip, const MeasureOptions& measure_options, Output& output) {
  const bool are_families = compares_families(options);
  const std::string architecture = current_manifest().architecture;
  struct Job {
    PlansToMeasure plans;
    std::string problem;
  };
  std::vector<Job> jobs(configurations.size());
  Progress progress;
  progress.show("planning and compiling " + std::to_string(jobs.size()) + " configurations");
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].plans.configuration = configurations[i];
  }
  constexpr std::array kWithout{CusparsePlan::kName};
  parallel_for(static_cast<int>(jobs.size()), all_cores(), [&](int i) {
    Job& job = jobs[static_cast<std::size_t>(i)];
    const Configuration configuration = job.plans.configuration;
    try {
      const RowProfile rows = row_profile(configuration);
      job.plans = are_families ? families_to_measure(chip.chip, configuration, rows, architecture, kWithout)
                               : plan_to_measure(chip.chip, configuration, rows, architecture);
    } catch (const std::exception& error) {
      job.problem = error.what();
    }
  });
  std::vector<CompileRequest> requests;
  for (const Job& job : jobs) {
    std::ranges::move(compile_requests(job.plans, architecture, measure_options), std::back_inserter(requests));
  }
  // What does not compile here fails again below, where it is reported with its row.
  compile_all(requests, [&](std::size_t done) {
    progress.show("compiling " + std::to_string(done) + " of " + std::to_string(requests.size()));
  });
  return measure_rows(
      file, jobs.size(), measured_plan_columns().table({}).columns, output,
      [&](std::size_t i) {
        const Configuration& configuration = jobs[i].plans.configuration;
        return jobs[i].problem.empty() ? prepare_plans(jobs[i].plans, recurrent_matrix(configuration), measure_options)
                                       : PreparedPlans();
      },
      [&](std::size_t i, std::future<PreparedPlans> prepared) {
        const PlansToMeasure& plans = jobs[i].plans;
        progress.show("measuring " + std::to_string(i + 1) + " of " + std::to_string(jobs.size()) + ": " +
                      describe(plans.configuration.network));
        const auto named = [&](const std::string& problem) {
          return "(" + describe(plans.configuration.network) + "): " + problem;
        };
        RowsMeasured rows;
        const auto add = [&](const MeasuredPlan& plan) { rows.cells.push_back(measured_plan_columns().cells(plan)); };
        try {
          if (!jobs[i].problem.empty()) {
            throw InputError(jobs[i].problem);
          }
          for (const MeasuredPlan& plan : measure_plans(chip.chip, plans, prepared.get(), measure_options).plans) {
            add(plan);
            if (plan.has_failed()) {
              rows.problems.push_back(named(std::string(plan.ranked.family) + ": " + plan.note()));
            }
          }
        } catch (const std::exception& error) {
          rows.problems.push_back(named(error.what()));
          if (!are_families) {  // a configuration that could not be measured still has its row
            add({.chip = chip.chip.name, .configuration = plans.configuration, .ranked = {}});
          }
        }
        progress.clear();
        return rows;
      });
}

int measure_plans_once(const ChipFile& chip, const Configuration& configuration, bool are_families,
                       const MeasureOptions& options, Output& output) {
  const Manifest manifest = current_manifest();
  const auto matrix = recurrent_matrix(configuration);
  const RowProfile rows = row_profile(configuration, *matrix);
  const PlansToMeasure plans = are_families ? families_to_measure(chip.chip, configuration, rows, manifest.architecture)
                                            : plan_to_measure(chip.chip, configuration, rows, manifest.architecture);
  auto preparing = std::async(std::launch::async, [&] { return prepare_plans(plans, matrix, options); });
  // What does not compile here fails again where it is needed.
  compile_all(compile_requests(plans, manifest.architecture, options), [](std::size_t) {});
  const MeasuredPlans measured = measure_plans(chip.chip, plans, preparing.get(), options);
  output.write(are_families ? families_report(chip, measured, manifest) : plan_report(chip, measured, manifest));
  if (output.format() == Format::csv) {
    write_manifest_beside(output, manifest);
  }
  return std::ranges::any_of(measured.plans, &MeasuredPlan::is_timed) &&
                 std::ranges::none_of(measured.plans, &MeasuredPlan::has_failed)
             ? 0
             : 1;
}

std::vector<ColumnGroup> all_columns() {
  std::vector<ColumnGroup> groups{recurrent_columns(Binding::term).group("answers: a step of a recurrent network"),
                                  columns_of(TrainingCase()).group("answers: a training"),
                                  columns_of(FeedForwardCase()).group("answers: a feed-forward network"),
                                  measured_plan_columns().group("recurrent networks"),
                                  baseline_column_group(),
                                  whole_network_columns(),
                                  stream_column_group(),
                                  training_columns(),
                                  tuning_columns()};
  std::ranges::move(inference_column_groups(), std::back_inserter(groups));
  return groups;
}

MeasureOptions read_measure_options(const Options& options) {
  return {.timing = {.most_samples = static_cast<int>(options.whole("repeats", 1, 100000))},
          .floor = options.flag("floor"),
          .clocks = options.flag("clocks"),
          .baselines = options.flag("baselines"),
          .checks = !options.flag("no-check")};
}

int measure_network(const Options& options, const ChipFile& chip, const MeasureOptions& measure_options) {
  refuse_beside(options, "network", {}, {"configurations", "floor", "clocks", "capture", "write", "arch"});
  options.refuse({"interpret", "compile-only", "image-order"}, "contradicts --no-check", options.flag("no-check"));
  const std::string network = network_text(options);
  const std::string images = options.given("images")     ? options.text("images")
                             : options.flag("interpret") ? "digits:32"
                                                         : "digits:60000";
  const InferenceConstraints plan = read_inference_constraints(options.text("plan"));
  const bool is_staged = plan.plan && std::holds_alternative<StagedPlan>(*plan.plan);
  const bool is_library = !library_asked(plan).empty();
  const bool are_ways = is_staged || is_library || measure_options.baselines;
  if (is_staged) {
    check(std::get<StagedPlan>(*plan.plan));
  }
  if (are_ways) {
    refuse_beside(options,
                  measure_options.baselines ? "baselines"
                  : is_staged               ? "plan staged"
                                            : "plan, of a library",
                  {}, {"gpus", "split", "image-order", "compile-only"});
  }
  Output output(options);
  const ImagesOnGpus on_gpus{
      .gpus = options.count("gpus", 1024, 1),
      .split = options.given("split")
                   ? static_cast<Split>(options.choice("split", options.text("split"), {"dealt", "contiguous"}))
                   : Split::dealt,
      .survivors_first = options.given("image-order") &&
                         options.choice("image-order", options.text("image-order"), {"given", "survivors-first"}) == 1};
  if (options.flag("interpret")) {
    options.refuse({"gpus", "split", "image-order"}, "contradicts --interpret");
    return interpret_feed_forward(chip, network, images, plan, measure_options, output);
  }
  if (are_ways) {
    return measure_ways(chip, network, images, plan, measure_options, output);
  }
  return options.flag("compile-only")
             ? compile_feed_forward(chip, network, images, plan, output)
             : measure_feed_forward(chip, network, images, on_gpus, plan, measure_options, output);
}

#endif

std::vector<OptionGroup> all_measure_options() {
  return {chip_options(),
          network_options(),
          whole_network_options(),
          stream_options(),
          plan_options(),
          whole_plan_option(),
          feed_forward_options({"images", "gpus", "split", "image-order"}),
          training_options(),
          measure_options(),
          output_options()};
}

int run_measure([[maybe_unused]] const Options& options) {
#ifdef ONCHIP_HAS_CUDA
  if (options.flag("columns")) {
    Output(options).write(explain(all_columns()));
    return 0;
  }
  const bool is_feed_forward = asks_feed_forward(options, {network_options(), whole_network_options(), plan_options()});
  const bool trains_file = options.text("mode") == "train" && options.given("configurations");
  std::optional<AskedTraining> training;
  if (!trains_file && asks_training(options)) {
    training = read_training(options);
  }
  refuse_contradictions(options);
  if (options.flag("stream")) {
    Output output(options);
    const StreamAnswer answer = predict(read_measured_chip(options).chip, read_stream(options), options.text("plan"));
    output.write(
        report_of({answer, measure_stream(answer.size, answer.plan, options.count("requests", 1'000'000'000, 1'000'000),
                                          static_cast<std::uint64_t>(options.whole("seed", 0, 2147483647)))}));
    return 0;
  }
  const bool is_on_gpu = !options.flag("compile-only") && !options.flag("interpret");
  const ChipFile chip = is_on_gpu ? read_measured_chip(options) : read_chip(options);
  Progress progress;
  MeasureOptions measure_options = read_measure_options(options);
  measure_options.say = [&](const std::string& what) { progress.show(what); };
  if (options.given("configurations") && !options.flag("compile-only") && options.given("format") &&
      options.text("format") != "csv") {
    throw InputError("--configurations writes CSV: leave --format out");
  }
  if (training || trains_file) {
    return measure_training(options, chip, std::move(training), measure_options);
  }
  if (is_feed_forward) {
    return measure_network(options, chip, measure_options);
  }
  if (options.given("configurations")) {
    Output output(options);
    return measure_each(configurations_of_file(options), options.text("configurations"), options, chip, measure_options,
                        output);
  }
  const std::vector<Configuration> configurations =
      read_configurations(options, /*needs_hidden=*/true, /*takes_all_families=*/true);
  const Configuration& configuration = configurations.front();
  if (configurations.size() > 1) {
    const bool is_csv = !options.given("format") || options.text("format") == "csv";
    options.refuse({"baselines", "floor", "clocks", "capture", "interpret", "compile-only"},
                   "is of one tensor: name it by --tensor");
    options.refuse({"format"}, "is of one tensor, several are rows of CSV: name it by --tensor", !is_csv);
    Output output(options);
    return measure_each(configurations, configuration.weights_file, options, chip, measure_options, output);
  }
  measure_options.seed = configuration.seed;
  const bool is_of_library = !configuration.family().empty() && !find_family(configuration.family()).is_on_chip;
  options.refuse({"baselines", "floor", "clocks", "capture", "interpret", "compile-only"},
                 "takes a plan of a kernel, not a library's", is_of_library);
  Output output(options);
  if (const std::optional<Stack> stack = read_stack(options)) {
    return measure_whole_network(chip, configuration, *stack, measure_options, output);
  }
  if (options.given("capture")) {
    return capture_network(chip, configuration, options.text("capture"), options.flag("interpret"), output);
  }
  if (options.flag("interpret")) {
    return interpret_network(chip, configuration, measure_options, output);
  }
  return options.flag("compile-only")
             ? compile_only(options, chip, configuration, output)
             : measure_plans_once(chip, configuration, is_of_library || compares_families(options), measure_options,
                                  output);
#else
  throw InputError("built without CUDA: measure needs a CUDA toolkit when onchip is configured");
#endif
}

}  // namespace

const Verb kMeasureVerb{"measure", "Run a plan as a CUDA kernel: check its results, then time it.",
                        "onchip measure --hidden 2304 --density 30% --baselines", all_measure_options, run_measure};

}  // namespace onchip
