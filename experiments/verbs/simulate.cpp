// SPDX-License-Identifier: Apache-2.0
// onchip simulate: one network, many, or a trace from a file, replayed on a simulated chip.
#include "experiments/command/plan_options.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/validation/ranks.hpp"
#include "experiments/verbs/simulation_report.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/base/units.hpp"
#include "sim/sparse/plan_trace.hpp"
#include "sim/trace/compact_trace.hpp"
#include "sim/trace/timeline.hpp"
#include "sim/trace/trace_file.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

namespace onchip {
namespace {

namespace po = boost::program_options;

OptionGroup file_options() {
  OptionGroup group = option_group("Files");
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  // clang-format off
  group.add_options()
      ("configurations", text("FILE"),
       "Simulate every row of a CSV file (cell, hidden, batch, density, precision, mask, seed, steps and, if wanted, "
       "plan, weights and tensor: a file beside it).")
      ("trace", text("FILE"), "Simulate a trace instead of a network: onchip's compact format, Accel-Sim's .traceg, also compressed by gzip, xz "
       "or zstd, or the kernels of its list kernelslist.g.")
      ("record", text("FILE"), "Write the instructions and addresses of one step as a compact trace.")
      ("timeline", text("FILE"), "Write what happens when as Chrome trace JSON, for ui.perfetto.dev.")
      ("accesses", text("FILE"), "Write every shared-memory instruction of SM 0 with its wavefronts as CSV.");
  // clang-format on
  return group;
}

// Options of which a file of many configurations, or a trace, has no use.
void refuse(const Options& options, const char* with, std::initializer_list<const char*> names,
            std::initializer_list<OptionGroup> groups) {
  std::vector<std::string> refused(names.begin(), names.end());
  for (const OptionGroup& group : groups) {
    for (const auto& option : group.options()) {
      refused.push_back(option->long_name());
    }
  }
  for (const std::string& option : refused) {
    if (options.given(option)) {
      throw InputError("--" + option + " contradicts --" + with);
    }
  }
}

// Of the family whose steps are replayed, unless another is asked for, which is refused by name.
Configuration of_replayed_family(Configuration configuration) {
  if (!configuration.constraints.family) {
    configuration.constraints.family = kReplayedFamily;
  }
  return configuration;
}

SimulatedCase simulate_case(const ChipFile& chip, const Configuration& configuration,
                            const SimulationOptions& options) {
  SimulatedCase answer{
      {chip.chip.name, configuration, plan_network(chip.chip, configuration, row_profile(configuration))}, {}, {}};
  const PlannedNetwork& planned = answer.planned.planned;
  if (planned.prediction.footprint.fits) {
    const Layout layout = make_layout(planned.network, planned.plan, *recurrent_matrix(configuration));
    answer.simulation = simulate(chip.chip, plan_trace(chip.chip, layout), options);
  }
  return answer;
}

// ---- files beside the answer ----------------------------------------------------------------------------------------

void write_record(const std::string& path, const TraceSource& source) {
  OutputFile file(path);
  file.write(compact_trace_header(source.blocks(), source.resources()));
  for (int block = 0; block < source.blocks(); ++block) {
    file.write(encode_block(source.block(block)));
  }
  file.commit();
}

void write_accesses(const std::string& path, const Chip& chip, const TraceSource& source) {
  Table table{
      {"warp", "instruction", "operation", "bytes", "lanes", "wavefronts", "ideal_wavefronts", "words", "multicasts"},
      {}};
  for (const AccessCost& access : count_accesses(chip, source, 0)) {
    table.rows.push_back(
        {std::to_string(access.warp), std::to_string(access.instruction), std::string(name(access.operation)),
         std::to_string(access.width), std::to_string(access.lanes), std::to_string(access.cost.wavefronts),
         std::to_string(access.cost.ideal), std::to_string(access.cost.words), std::to_string(access.cost.multicasts)});
  }
  OutputFile file(path);
  file.write(to_csv(table));
  file.commit();
}

// Every SM's body and wait, and every warp of the SM that takes longest.
void write_step_timeline(const std::string& path, const Chip& chip, const PlanTrace& trace,
                         const Simulation& simulation, SmOptions options) {
  const auto slowest = static_cast<int>(std::max_element(simulation.body_us.begin(), simulation.body_us.end()) -
                                        simulation.body_us.begin());
  options.events = true;
  Timeline timeline{{"one step of all SMs", "the warps of SM " + std::to_string(slowest)}, {"SM", "warp"}, {}};
  for (std::size_t sm = 0; sm < simulation.body_us.size(); ++sm) {
    double end = 0;
    for (const PassBodies& pass : simulation.passes) {
      const double begin = pass.begin_us[sm];
      if (begin > end && &pass != &simulation.passes.front()) {
        timeline.spans.push_back({0, static_cast<int>(sm), "exchange", end, begin - end});
      }
      timeline.spans.push_back({0, static_cast<int>(sm), "body", begin, pass.body_us[sm]});
      end = begin + pass.body_us[sm];
    }
    const double next = simulation.passes.front().begin_us[sm] + simulation.body_us[sm] + simulation.wait_us[sm];
    if (next > end) {
      timeline.spans.push_back({0, static_cast<int>(sm), "exchange", end, next - end});
    }
  }
  for (int pass = 0; pass < trace.bodies(); ++pass) {
    const BlockTrace block = trace.body(slowest, pass);
    const SmRun run = run_sm(chip, {&block, 1}, options);
    for (TimelineSpan& span : warp_spans(block, run, 1, 1e6 / chip.clock_hz)) {
      span.begin_us += simulation.passes[static_cast<std::size_t>(pass)].begin_us[static_cast<std::size_t>(slowest)];
      timeline.spans.push_back(std::move(span));
    }
  }
  OutputFile file(path);
  file.write(to_chrome_trace(timeline));
  file.commit();
}

void write_block_timeline(const std::string& path, const Chip& chip, const TraceSource& source, SmOptions options) {
  options.events = true;
  const BlockTrace block = source.block(0);
  const SmRun run = run_sm(chip, {&block, 1}, options);
  OutputFile file(path);
  file.write(to_chrome_trace({{"block 0"}, {"warp"}, warp_spans(block, run, 0, 1e6 / chip.clock_hz)}));
  file.commit();
}

// ---- the three kinds of input ---------------------------------------------------------------------------------------

// What is said of one kernel.
struct KernelRun {
  std::string name;
  int blocks = 0;
  TraceRun run;
  std::vector<BlockBanks> banks;
  Causes causes{};
};

KernelRun run_kernel(const std::filesystem::path& path, const Options& options, const Chip& chip,
                     const SimulationOptions& simulation) {
  const auto source = read_trace(path);
  KernelRun kernel{path.filename().string(),
                   source->blocks(),
                   run_trace(chip, *source, simulation.sm, simulation.threads),
                   count_banks(chip, *source, simulation.threads),
                   {}};
  for (const SmRun& sm : kernel.run.sms) {
    std::transform(kernel.causes.begin(), kernel.causes.end(), sm.causes.begin(), kernel.causes.begin(), std::plus<>());
  }
  if (options.given("record")) {
    write_record(options.text("record"), *source);
  }
  if (options.given("timeline")) {
    write_block_timeline(options.text("timeline"), chip, *source, simulation.sm);
  }
  if (options.given("accesses")) {
    write_accesses(options.text("accesses"), chip, *source);
  }
  return kernel;
}

Json to_json(const KernelRun& kernel, double us_per_cycle) {
  std::vector<double> cycles;
  for (const SmRun& sm : kernel.run.sms) {
    cycles.push_back(static_cast<double>(sm.cycles));
  }
  const Spread sms = spread_of(cycles);
  Json json{{"kernel", kernel.name},
            {"blocks", kernel.blocks},
            {"blocks_on_an_sm", kernel.run.resident},
            {"cycles", rounded(kernel.run.cycles(), 12)},
            {"us", rounded(kernel.run.cycles() * us_per_cycle)},
            {"parts", Json::array()},
            {"sms", {{"least_cycles", sms.least}, {"median_cycles", sms.median}, {"most_cycles", sms.most}}},
            {"shared_memory", to_json(kernel.banks)}};
  for (std::size_t i = 0; i < kernel.causes.size(); ++i) {
    json["parts"].push_back({{"name", kCauseNames[i]}, {"cycles", rounded(kernel.causes[i], 12)}});
  }
  return json;
}

std::string to_text(const KernelRun& kernel, const Chip& chip, double us_per_cycle) {
  Table parts{{"cause", "cycles of all SMs"}, {}};
  for (std::size_t i = 0; i < kernel.causes.size(); ++i) {
    parts.rows.push_back({std::string(kCauseNames[i]), fixed(kernel.causes[i], 0)});
  }
  return kernel.name + ": " + std::to_string(kernel.blocks) + " blocks on " + chip.name + ", up to " +
         std::to_string(kernel.run.resident) + " at a time on an SM: " + format_number(kernel.run.cycles()) +
         " cycles, " + fixed(kernel.run.cycles() * us_per_cycle, 2) + " us\n\n" + to_aligned(parts) + '\n' +
         to_text(kernel.banks);
}

// Of a list of kernels one after another.
int simulate_trace(const Options& options, const ChipFile& file, const SimulationOptions& simulation) {
  refuse(options, "trace", {"configurations"}, {network_options(), plan_options(), whole_plan_option()});
  Output output(options);
  const Chip& chip = file.chip;
  const std::vector<std::filesystem::path> paths = kernels_of(options.text("trace"));
  for (const char* option : {"record", "timeline", "accesses"}) {
    if (paths.size() > 1 && options.given(option)) {
      throw InputError("--" + std::string(option) + " is of one kernel, but the list has " +
                       std::to_string(paths.size()) + ": name a trace of it, such as '" + paths[0].string() + "'");
    }
  }
  const double us_per_cycle = 1e6 / chip.clock_hz;
  Report report;
  Json kernels = Json::array();
  report.csv.columns = {"kernel", "chip", "blocks", "cycles", "us"};
  for (const std::string_view cause : kCauseNames) {
    report.csv.columns.push_back(std::string(cause) + "_cycles");
  }
  double cycles = 0;
  for (const std::filesystem::path& path : paths) {
    const KernelRun kernel = run_kernel(path, options, chip, simulation);
    cycles += kernel.run.cycles();
    kernels.push_back(to_json(kernel, us_per_cycle));
    report.text += (report.text.empty() ? "" : "\n") + to_text(kernel, chip, us_per_cycle);
    report.csv.rows.push_back({kernel.name, chip.name, std::to_string(kernel.blocks),
                               format_number(kernel.run.cycles()), significant(kernel.run.cycles() * us_per_cycle, 6)});
    for (const double cause : kernel.causes) {
      report.csv.rows.back().push_back(significant(cause, 12));
    }
  }
  if (paths.size() == 1) {
    report.json = kernels[0];
  } else {
    report.json = {{"kernels", kernels}, {"cycles", rounded(cycles, 12)}, {"us", rounded(cycles * us_per_cycle)}};
    report.text += '\n' + std::to_string(paths.size()) + " kernels one after another: " + format_number(cycles) +
                   " cycles, " + fixed(cycles * us_per_cycle, 2) + " us\n";
  }
  report.json["chip"] = chip.name;
  output.write(report);
  return 0;
}

struct ManyConfigurations {
  ChipFile chip;
  SimulationOptions simulation;
  CsvReader file;
  std::vector<Configuration> rows;
};

ManyConfigurations read_many(const Options& options) {
  refuse(options, "configurations", {"trace", "record", "timeline", "accesses"},
         {network_options(), plan_options(), whole_plan_option()});
  if (options.given("format") && options.text("format") != "csv") {
    throw InputError("--configurations writes CSV: leave --format out");
  }
  ManyConfigurations many{read_chip(options), read_simulation(options), CsvReader(options.text("configurations")), {}};
  for (std::size_t row = 0; row < many.file.size(); ++row) {
    many.rows.push_back(read_configuration_row(many.file, row));
  }
  return many;
}

// Row after row of the file, shared out to the processes that mpirun started; the first of them writes. A row that
// fails is the end of all, as it would be in one process.
int simulate_many(const Options& options) {
  const Ranks ranks;
  std::optional<Output> output;
  const auto many = ranks.together([&] {
    ManyConfigurations read = read_many(options);
    if (ranks.rank() == 0) {
      output.emplace(options);
    }
    return read;
  });
  if (!many) {
    return 0;
  }
  const std::vector<Configuration>& configurations = many->rows;
  SimulationOptions simulation = many->simulation;
  struct Row {
    std::string line, problem;
  };
  std::vector<Row> rows(configurations.size());
  const int threads = std::exchange(simulation.threads, 1);
  const int mine = static_cast<int>(rows.size() + ranks.count() - 1 - ranks.rank()) / ranks.count();
  Progress progress;
  std::mutex mutex;
  int done = 0;
  parallel_for(mine, threads, [&](int i) {
    const auto row = static_cast<std::size_t>(i * ranks.count() + ranks.rank());
    try {
      rows[row].line =
          csv_line(simulation_cells(simulate_case(many->chip, of_replayed_family(configurations[row]), simulation)));
    } catch (const InputError& error) {
      rows[row].problem = error.what();
    }
    const std::scoped_lock lock(mutex);
    if (ranks.rank() == 0) {
      progress.show(std::to_string(++done) + " of " + std::to_string(mine));
    }
  });
  progress.clear();
  Json of_mine = Json::array();
  for (const Row& row : rows) {
    of_mine.push_back({row.line, row.problem});
  }
  const std::vector<std::string> of_all = ranks.gather(of_mine.dump());
  if (!output) {
    return 0;
  }
  for (std::size_t rank = 0; rank < of_all.size(); ++rank) {
    const Json of_rank = Json::parse(of_all[rank]);
    for (std::size_t row = rank; row < rows.size(); row += of_all.size()) {
      rows[row] = {of_rank[row][0], of_rank[row][1]};
    }
  }
  output->append(csv_line(simulation_columns()));
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!rows[row].problem.empty()) {
      many->file.fail(row, rows[row].problem);
    }
    output->append(rows[row].line);
  }
  output->finish();
  return 0;
}

int simulate_one(const Options& options, const ChipFile& chip, const SimulationOptions& simulation) {
  const Configuration configuration = of_replayed_family(read_configuration(options, /*needs_hidden=*/true));
  Output output(options);
  SimulatedCase answer{
      {chip.chip.name, configuration, plan_network(chip.chip, configuration, row_profile(configuration))}, {}, {}};
  const PlannedNetwork& planned = answer.planned.planned;
  if (planned.prediction.footprint.fits) {
    const PlanTrace trace = plan_trace(
        chip.chip, make_layout(planned.network, planned.plan, *recurrent_matrix(configuration), simulation.threads));
    answer.simulation = simulate(chip.chip, trace, simulation);
    answer.banks = count_banks(chip.chip, trace, simulation.threads);
    if (options.given("record")) {
      write_record(options.text("record"), trace);
    }
    if (options.given("timeline")) {
      write_step_timeline(options.text("timeline"), chip.chip, trace, *answer.simulation, simulation.sm);
    }
    if (options.given("accesses")) {
      write_accesses(options.text("accesses"), chip.chip, trace);
    }
  }
  output.write({to_text(answer), {simulation_columns(), {simulation_cells(answer)}}, to_json(answer)});
  return answer.simulation ? 0 : 1;
}

}  // namespace

int run_simulate(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto options = parse_options(verb, arguments,
                                     {chip_options(), network_options(), plan_options(), whole_plan_option(),
                                      file_options(), simulator_options(), output_options()});
  if (!options) {
    return 0;
  }
  if (!options->given("trace") && options->given("configurations")) {
    return simulate_many(*options);
  }
  const ChipFile chip = read_chip(*options);
  const SimulationOptions simulation = read_simulation(*options);
  return options->given("trace") ? simulate_trace(*options, chip, simulation)
                                 : simulate_one(*options, chip, simulation);
}

}  // namespace onchip
