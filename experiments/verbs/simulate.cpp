// SPDX-License-Identifier: Apache-2.0
// onchip simulate: one network, many, a training step, or a trace from a file, replayed on a simulated chip.
#include "experiments/training/simulate.hpp"
#include "experiments/command/configuration_rows.hpp"
#include "experiments/command/output.hpp"
#include "experiments/command/plan_options.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/command/ranks.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/feed_forward/questions.hpp"
#include "experiments/feed_forward/simulation.hpp"
#include "experiments/reports/simulation_report.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/base/table.hpp"
#include "model/base/units.hpp"
#include "sim/machine/timeline.hpp"
#include "sim/machine/trace_run.hpp"
#include "sim/trace/compact_trace.hpp"
#include "sim/trace/trace_file.hpp"

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
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
      ("sm", text("N"), "Show which banks of this SM's shared memory collide, and its worst instructions; for --accesses, --timeline "
       "and a trace's block, too. Else SM 0, and --timeline takes the SM that takes longest.")
      ("accesses", text("FILE"), "Write every shared-memory instruction of an SM with its wavefronts, banks and addresses as CSV.");
  // clang-format on
  return group;
}

// ---- what is written beside the answer: a trace, a timeline, every access to shared memory
// ------------------------------

void write_record(const std::string& path, const TraceSource& source) {
  OutputFile file(path);
  file.write(compact_trace_header(source.blocks(), source.resources(), source.step()));
  for (int block = 0; block < source.blocks(); ++block) {
    file.write(encode_block(source, block));
  }
  file.commit();
}

void write_accesses(const std::string& path, const Chip& chip, const TraceSource& source, int sm) {
  Table table{{"warp", "instruction", "operation", "bytes", "lanes", "wavefronts", "ideal_wavefronts", "words",
               "multicasts", "banks", "addresses"},
              {}};
  for (const AccessCost& access : count_accesses(chip, source, sm).accesses) {
    table.rows.push_back({std::to_string(access.warp), std::to_string(access.instruction),
                          std::string(name(access.operation)), std::to_string(access.width),
                          std::to_string(access.lanes), std::to_string(access.cost.wavefronts),
                          std::to_string(access.cost.ideal), std::to_string(access.cost.words),
                          std::to_string(access.cost.multicasts), joined(access.busiest), joined(access.addresses)});
  }
  OutputFile file(path);
  file.write(to_csv(table));
  file.commit();
}

// Every SM's body and wait, and every warp of one SM.
void write_step_timeline(const std::string& path, const Chip& chip, const TraceSource& trace,
                         const Simulation& simulation, SmOptions options, int shown) {
  options.events = true;
  Timeline timeline{{"one step of all SMs", "the warps of SM " + std::to_string(shown)}, {"SM", "warp"}, {}};
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
  for (int pass = 0; pass < trace.step()->passes; ++pass) {
    const BlockTrace block = trace.body(shown, pass);
    const SmRun run = run_sm(chip, {&block, 1}, options);
    for (TimelineSpan& span : warp_spans(block, run, 1, 1e6 / chip.clock_hz)) {
      span.begin_us += simulation.passes[static_cast<std::size_t>(pass)].begin_us[static_cast<std::size_t>(shown)];
      timeline.spans.push_back(std::move(span));
    }
  }
  OutputFile file(path);
  file.write(to_chrome_trace(timeline));
  file.commit();
}

void write_block_timeline(const std::string& path, const Chip& chip, const TraceSource& source, SmOptions options,
                          int shown) {
  options.events = true;
  const BlockTrace block = source.block(shown);
  const SmRun run = run_sm(chip, {&block, 1}, options);
  OutputFile file(path);
  file.write(
      to_chrome_trace({{"block " + std::to_string(shown)}, {"warp"}, warp_spans(block, run, 0, 1e6 / chip.clock_hz)}));
  file.commit();
}

// --sm, or else 0. Throws InputError if the source has no such SM, or block.
int sm_of(const Options& options, const TraceSource& source) {
  const auto sm = options.given("sm") ? options.whole("sm", 0, 1 << 20) : 0;
  if (sm >= source.blocks()) {
    throw InputError("--sm " + std::to_string(sm) + ": expected at most " + std::to_string(source.blocks() - 1) +
                     ", the last SM or block");
  }
  return static_cast<int>(sm);
}

// What is asked for. `step`: null if the source's blocks do not exchange anything.
void write_files(const Options& options, const Chip& chip, const TraceSource& source, const Simulation* step,
                 const SmOptions& sm_options) {
  const int sm = sm_of(options, source);
  if (options.given("record")) {
    write_record(options.text("record"), source);
  }
  if (options.given("timeline") && step) {
    const auto slowest = std::max_element(step->body_us.begin(), step->body_us.end()) - step->body_us.begin();
    write_step_timeline(options.text("timeline"), chip, source, *step, sm_options,
                        options.given("sm") ? sm : static_cast<int>(slowest));
  } else if (options.given("timeline")) {
    write_block_timeline(options.text("timeline"), chip, source, sm_options, sm);
  }
  if (options.given("accesses")) {
    write_accesses(options.text("accesses"), chip, source, sm);
  }
}

// ---- simulations
// -----------------------------------------------------------------------------------------------------

// Of the family whose steps are replayed, unless another is asked for, which is refused by name.
Configuration of_replayed_family(Configuration configuration) {
  if (!configuration.constraints.family) {
    configuration.constraints.family = kReplayedFamily;
  }
  return configuration;
}

// Calls of(trace, answer), if there is such, of what fits.
SimulatedCase simulate_case(const ChipFile& chip, const Configuration& configuration, const SimulationOptions& options,
                            const std::function<void(const TraceSource&, SimulatedCase&)>& of = {}) {
  SimulatedCase answer{
      {chip.chip.name, configuration, {plan_network(chip.chip, configuration, row_profile(configuration))}}, {}, {}};
  const PlannedNetwork& planned = answer.planned.planned;
  if (planned.prediction.footprint.fits) {
    const auto trace = plan_trace(
        chip.chip, make_layout(planned.network, planned.plan, *recurrent_matrix(configuration), options.threads));
    answer.simulation = simulate(chip.chip, *trace, options);
    if (of) {
      of(*trace, answer);
    }
  }
  return answer;
}

// All SMs' banks, and those of --sm.
SmBanks count_banks(const Options& options, const Chip& chip, const TraceSource& source, int threads) {
  SmBanks banks{onchip::count_banks(chip, source, threads), {}};
  if (options.given("sm")) {
    banks.of_sm = count_accesses(chip, source, sm_of(options, source));
  }
  return banks;
}

// ---- the three kinds of input ---------------------------------------------------------------------------------------

Report simulate_kernel(const std::filesystem::path& path, const Options& options, const Chip& chip,
                       const SimulationOptions& simulation) {
  const auto source = read_trace(path);
  const std::string kernel = path.filename().string();
  if (source->step() && source->blocks() > chip.sm_count) {
    throw InputError(path.string() + ": a step of " + std::to_string(source->blocks()) +
                     " SMs, which exchange their state; the " + chip.name + " has " + std::to_string(chip.sm_count));
  }
  const SmBanks banks = count_banks(options, chip, *source, simulation.threads);
  if (source->step()) {
    const Simulation step = simulate(chip, *source, simulation);
    write_files(options, chip, *source, &step, simulation.sm);
    return report_step(kernel, chip, step, banks);
  }
  const TraceRun run = run_trace(chip, *source, simulation.sm, simulation.threads);
  write_files(options, chip, *source, nullptr, simulation.sm);
  return report_blocks(kernel, chip, run, banks);
}

// Of a list of kernels one after another.
int simulate_trace(const Options& options, const ChipFile& file, const SimulationOptions& simulation) {
  refuse_beside(options, "trace", {network_options(), plan_options(), whole_plan_option()}, {"configurations"});
  Output output(options);
  const Chip& chip = file.chip;
  const std::vector<std::filesystem::path> paths = kernels_of(options.text("trace"));
  for (const char* option : {"record", "timeline", "accesses", "sm"}) {
    if (paths.size() > 1 && options.given(option)) {
      throw InputError("--" + std::string(option) + " is of one kernel, but the list has " +
                       std::to_string(paths.size()) + ": name a trace of it, such as '" + paths[0].string() + "'");
    }
  }
  Report report = simulate_kernel(paths[0], options, chip, simulation);
  if (paths.size() > 1) {
    report.json = {{"kernels", Json::array({report.json})}, {"cycles", report.json["cycles"]}};
    for (std::size_t i = 1; i < paths.size(); ++i) {
      const Report next = simulate_kernel(paths[i], options, chip, simulation);
      if (next.csv.columns != report.csv.columns) {
        throw InputError(paths[i].string() + ": a list of kernels has recorded steps alone, or none");
      }
      report.text += '\n' + next.text;
      report.csv.rows.push_back(next.csv.rows[0]);
      report.json["kernels"].push_back(next.json);
      report.json["cycles"] = report.json["cycles"].get<double>() + next.json["cycles"].get<double>();
    }
    const auto cycles = report.json["cycles"].get<double>();
    const double us = cycles * 1e6 / chip.clock_hz;
    report.json["us"] = rounded(us);
    report.text += '\n' + std::to_string(paths.size()) + " kernels one after another: " + format_number(cycles) +
                   " cycles, " + fixed(us, 2) + " us\n";
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
  refuse_beside(options, "configurations", {network_options(), plan_options(), whole_plan_option()},
                {"trace", "record", "timeline", "accesses", "sm"});
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
  const SimulatedCase answer =
      simulate_case(chip, configuration, simulation, [&](const TraceSource& trace, SimulatedCase& of) {
        of.banks = count_banks(options, chip.chip, trace, simulation.threads);
        write_files(options, chip.chip, trace, &*of.simulation, simulation.sm);
      });
  output.write({to_text(answer), {simulation_columns(), {simulation_cells(answer)}}, to_json(answer)});
  return answer.simulation ? 0 : 1;
}

}  // namespace

int run_simulate(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto options =
      parse_options(verb, arguments,
                    {chip_options(), network_options(), plan_options(), whole_plan_option(), file_options(),
                     training_options(), feed_forward_options({"images"}), simulator_options(), output_options()});
  if (!options) {
    return 0;
  }
  if (asks_feed_forward(*options, {network_options(), plan_options(), file_options()})) {
    if (options->given("without")) {
      throw InputError("--without changes times, and --network says none");
    }
    return simulate_feed_forward(*options, read_chip(*options).chip, read_simulation(*options).threads);
  }
  if (asks_training(*options)) {
    refuse_beside(*options, "mode", {file_options()}, {});
    return simulate_training(*options, read_chip(*options), read_training(*options), read_simulation(*options));
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
