// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/kernel_checks.hpp"

#include "experiments/command/configuration_rows.hpp"
#include "experiments/measurement/capture.hpp"
#include "experiments/measurement/interpreted/interpret.hpp"
#include "experiments/reports/measure_report.hpp"
#include "kernels/recurrent/kernel_files.hpp"
#include "kernels/runtime/cubin.hpp"
#include "model/base/error.hpp"
#include "model/chip/instructions.hpp"
#include "model/dense/price.hpp"
#include "model/sparse/instructions.hpp"
#include "model/workload/reference.hpp"
#include "sim/sparse/plan_trace.hpp"
#include "sim/trace/capture_difference.hpp"
#include "sim/trace/compact_trace.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

namespace onchip {
namespace {

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
          throw InputError(std::string(of_family.kName) + " is no kernel to compile");
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

// The files of --write KERNEL.cu: the kernel, KERNEL.layout and KERNEL.json. Opened before any long work.
class WrittenKernel {
 public:
  explicit WrittenKernel(const std::filesystem::path& path)
      : path_(path), kernel_(path), layout_(beside(path, ".layout")), json_(beside(path, ".json")) {}

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

}  // namespace

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

}  // namespace onchip
