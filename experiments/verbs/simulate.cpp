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
#include "experiments/reports/recurrent_report.hpp"
#include "model/base/error.hpp"
#include "model/base/joined.hpp"
#include "model/base/parallel.hpp"
#include "model/base/statistics.hpp"
#include "model/base/table.hpp"
#include "model/base/units.hpp"
#include "sim/machine/timeline.hpp"
#include "sim/machine/trace_run.hpp"
#include "sim/simulate.hpp"
#include "sim/trace/compact_trace.hpp"
#include "sim/trace/trace_file.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace onchip {
namespace {

OptionGroup file_options() {
  return option_group(
      "Files", {{"configurations", "FILE",
                 "Simulate every row of a CSV file (cell, hidden, batch, density, precision, mask, seed, steps and, if "
                 "wanted, plan, weights and tensor: a file beside it)."},
                {"trace", "FILE",
                 "Simulate a trace instead of a network: onchip's compact format, Accel-Sim's .traceg, also compressed "
                 "by gzip, xz or zstd, or the kernels of its list kernelslist.g."},
                {"record", "FILE", "Write the instructions and addresses of one step as a compact trace."},
                {"timeline", "FILE", "Write what happens when as Chrome trace JSON, for ui.perfetto.dev."},
                {"sm", "N",
                 "Show which banks of this SM's shared memory collide, and its worst instructions; for --accesses, "
                 "--timeline and a trace's block, too. Else SM 0, and --timeline takes the SM that takes longest."},
                {"accesses", "FILE",
                 "Write every shared-memory instruction of an SM with its wavefronts, banks and addresses as CSV."}});
}

// ---- reports --------------------------------------------------------------------------------------------------------

std::string with_blanks(const auto& numbers) {
  return joined(numbers, " ", "", [](auto number) { return std::to_string(number); });
}

// Of a whole step with its staging, or of a trace's blocks.
struct SmBanks {
  std::vector<BlockBanks> all;         // [SMs]; empty if they were not asked for
  std::optional<BlockAccesses> of_sm;  // of one of them, if it was asked for
};

struct SimulatedCase {
  RecurrentCase planned;                 // what predict says of the same plan
  std::optional<Simulation> simulation;  // nothing if the plan does not fit
  SmBanks banks;
};

struct Total {
  std::int64_t instructions = 0, wavefronts = 0, ideal = 0, words = 0, multicasts = 0;
  double conflict_degree() const {
    return ideal > 0 ? static_cast<double>(wavefronts) / static_cast<double>(ideal) : 0;
  }
};

struct Kind {
  const char* name;
  std::int64_t BlockBanks::*instructions;
  std::vector<BankCost> BlockBanks::*warps;
};
constexpr std::array kKinds{Kind{"loads", &BlockBanks::load_instructions, &BlockBanks::warp_loads},
                            Kind{"stores", &BlockBanks::store_instructions, &BlockBanks::warp_stores},
                            Kind{"copies", &BlockBanks::copy_instructions, &BlockBanks::warp_copies}};

Total total(std::span<const BlockBanks> banks, const Kind& kind) {
  Total sum;
  for (const BlockBanks& block : banks) {
    sum.instructions += block.*kind.instructions;
    for (const BankCost& cost : block.*kind.warps) {
      sum.wavefronts += cost.wavefronts;
      sum.ideal += cost.ideal;
      sum.words += cost.words;
      sum.multicasts += cost.multicasts;
    }
  }
  return sum;
}

Json to_json(const Total& of) {
  return {{"instructions", of.instructions},
          {"wavefronts", of.wavefronts},
          {"ideal_wavefronts", of.ideal},
          {"conflict_degree", rounded(of.conflict_degree())},
          {"words", of.words},
          {"multicasts", of.multicasts}};
}

// Of a block's accesses, those that are shown.
constexpr std::size_t kWorst = 10;

Json to_json(const BlockAccesses& of) {
  Json json{{"sm", of.block}, {"words", Json::array()}, {"extra_wavefronts", Json::array()}, {"worst", Json::array()}};
  for (const BankUse& bank : of.banks) {
    json["words"].push_back(bank.words);
    json["extra_wavefronts"].push_back(rounded(bank.extra_wavefronts));
  }
  for (const AccessCost& access : worst_accesses(of, kWorst)) {
    json["worst"].push_back({{"warp", access.warp},
                             {"instruction", access.instruction},
                             {"operation", name(access.operation)},
                             {"bytes", access.width},
                             {"lanes", access.lanes},
                             {"wavefronts", access.cost.wavefronts},
                             {"ideal_wavefronts", access.cost.ideal},
                             {"banks", access.busiest},
                             {"addresses", access.addresses}});
  }
  return json;
}

std::string to_text(const BlockAccesses& of) {
  double most = 0;
  for (const BankUse& bank : of.banks) {
    most = std::max(most, bank.extra_wavefronts);
  }
  Table histogram{{"bank of SM " + std::to_string(of.block), "words", "extra wavefronts", ""}, {}};
  for (std::size_t bank = 0; bank < of.banks.size(); ++bank) {
    const BankUse& use = of.banks[bank];
    histogram.rows.push_back({std::to_string(bank), std::to_string(use.words), fixed(use.extra_wavefronts, 1),
                              bar(most > 0 ? use.extra_wavefronts / most : 0)});
  }
  std::string text = to_aligned(histogram);
  const std::vector<AccessCost> worst = worst_accesses(of, kWorst);
  for (const AccessCost& access : worst) {
    text += (&access == worst.data() ? "\nworst instructions\n" : "") + std::string("  warp ") +
            std::to_string(access.warp) + ", instruction " + std::to_string(access.instruction) + ": " +
            std::string(name(access.operation)) + " of " + std::to_string(access.width) + " bytes, " +
            std::to_string(access.cost.wavefronts) + " wavefronts instead of " + std::to_string(access.cost.ideal) +
            ", bank " + with_blanks(access.busiest) + "\n    addresses " + with_blanks(access.addresses) + '\n';
  }
  return text;
}

// Smallest, median and largest.
struct Spread {
  double least = 0, median = 0, most = 0;
};
Spread spread_of(std::vector<double> values) {
  return {quantile(values, 0), quantile(values, 0.5), quantile(values, 1)};
}
Json to_json(const Spread& spread) {
  return {{"least", rounded(spread.least)}, {"median", rounded(spread.median)}, {"most", rounded(spread.most)}};
}

// Of all blocks of a trace: instructions, wavefronts, conflict degrees, multicasts, words per bank; of one SM more.
Json to_json(const SmBanks& of) {
  const std::vector<BlockBanks>& banks = of.all;
  Json json;
  for (const Kind& kind : kKinds) {
    json[kind.name] = to_json(total(banks, kind));
  }
  std::vector<std::int64_t> heat(banks.empty() ? 0 : banks.front().heat.size());
  Json wavefronts_per_block = Json::array();
  for (const BlockBanks& block : banks) {
    std::ranges::transform(heat, block.heat, heat.begin(), std::plus<>());
    std::int64_t wavefronts = 0;
    for (const Kind& kind : kKinds) {
      wavefronts += total({&block, 1}, kind).wavefronts;
    }
    wavefronts_per_block.push_back(wavefronts);
  }
  json["heat"] = heat;
  json["wavefronts_per_block"] = std::move(wavefronts_per_block);
  if (of.of_sm) {
    json["banks"] = to_json(*of.of_sm);
  }
  return json;
}

std::string to_text(const SmBanks& of) {
  const std::vector<BlockBanks>& banks = of.all;
  Table table{{"shared memory", "instructions", "wavefronts", "without conflict", "conflict degree", "multicasts"}, {}};
  for (const Kind& kind : kKinds) {
    const Total sum = total(banks, kind);
    table.rows.push_back({kind.name, std::to_string(sum.instructions), std::to_string(sum.wavefronts),
                          std::to_string(sum.ideal), fixed(sum.conflict_degree(), 3), std::to_string(sum.multicasts)});
  }
  return to_aligned(table) + (of.of_sm ? '\n' + to_text(*of.of_sm) : "");
}

// The simulator's parts, and beside them what predict has for the same plan: neither's first is the other's first.
Table parts_table(const Simulation& simulation, const Prediction* prediction) {
  Table parts{{"part", "us", "share %", ""}, {}};
  if (prediction) {
    parts.columns.insert(parts.columns.end(), {"predict's term", "us", "share %"});
  }
  for (std::size_t i = 0; i < std::max(kStepPartNames.size(), prediction ? prediction->terms.size() : 0); ++i) {
    std::vector<std::string> row(4);
    if (i < kStepPartNames.size()) {
      const double share = simulation.parts_us[i] / simulation.step_us;
      row = {std::string(kStepPartNames[i]), fixed(simulation.parts_us[i], 3), fixed(100 * share, 1), bar(share)};
    }
    if (prediction) {
      row.resize(parts.columns.size());
    }
    if (prediction && i < prediction->terms.size()) {
      const Term& term = prediction->terms.begin()[i];
      row[4] = term.name;
      row[5] = fixed(term.us, 3);
      row[6] = fixed(100 * term.us / prediction->step_us, 1);
    }
    parts.rows.push_back(std::move(row));
  }
  return parts;
}

Json to_json(const Simulation& simulation) {
  Json json{{"binding", name(simulation.binding())},
            {"step_us", rounded(simulation.step_us)},
            {"interval_us", {rounded(simulation.low_us), rounded(simulation.high_us)}},
            {"terms", Json::array()},
            {"sms",
             {{"body_us", to_json(spread_of(simulation.body_us))},
              {"wait_us", to_json(spread_of(simulation.wait_us))},
              {"body_us_of_each", Json::array()},
              {"polls", rounded(simulation.polls)}}}};
  for (const double body_us : simulation.body_us) {
    json["sms"]["body_us_of_each"].push_back(rounded(body_us));
  }
  for (std::size_t i = 0; i < kStepPartNames.size(); ++i) {
    json["terms"].push_back({{"name", kStepPartNames[i]}, {"us", rounded(simulation.parts_us[i])}});
  }
  return json;
}

// predict's keys, with the simulator's parts as terms, and more.
Json to_json(const SimulatedCase& answer) {
  Json json = versioned(to_json(answer.planned));
  if (!answer.simulation) {
    return json;
  }
  const Simulation& simulation = *answer.simulation;
  json.update(to_json(simulation));
  const Prediction& prediction = answer.planned.planned.prediction;
  json["floor_us"] = rounded(prediction.floor_us);
  json["predicted_us"] = rounded(prediction.step_us);
  json["predicted_terms"] = Json::array();
  for (const Term& term : prediction.terms) {
    json["predicted_terms"].push_back({{"name", term.name}, {"us", rounded(term.us)}});
  }
  json["shared_memory"] = to_json(answer.banks);
  return json;
}

std::vector<std::string> simulation_columns() {
  std::vector<std::string> columns = configuration_columns();
  columns.insert(columns.begin(), "chip");
  for (const char* column : {"plan", "fits", "runs", "tier", "binding", "step_us", "low_us", "high_us", "floor_us"}) {
    columns.emplace_back(column);
  }
  for (const std::string_view part : kStepPartNames) {
    columns.push_back(std::string(part) + "_us");
  }
  for (const char* column : {"predicted_us", "body_least_us", "body_median_us", "body_most_us"}) {
    columns.emplace_back(column);
  }
  return columns;
}

std::vector<std::string> simulation_cells(const SimulatedCase& answer) {
  Configuration found = answer.planned.configuration;
  found.network = answer.planned.planned.network;
  const Prediction& prediction = answer.planned.planned.prediction;
  std::vector<std::string> cells = configuration_cells(found);
  cells.insert(cells.begin(), answer.planned.chip);
  cells.push_back(to_string(answer.planned.planned.plan));
  if (!answer.simulation) {
    cells.insert(cells.end(), {truth(false), truth(false), std::string(answer.planned.tier()),
                               std::string(info(prediction.footprint.binding).name)});
    cells.resize(simulation_columns().size());
    return cells;
  }
  const Simulation& simulation = *answer.simulation;
  const auto time = [](double us) { return significant(us, 6); };
  cells.insert(cells.end(), {truth(answer.planned.fits()), truth(true), std::string(answer.planned.tier()),
                             std::string(name(simulation.binding())), time(simulation.step_us), time(simulation.low_us),
                             time(simulation.high_us), time(prediction.floor_us)});
  for (const double part : simulation.parts_us) {
    cells.push_back(time(part));
  }
  const Spread body = spread_of(simulation.body_us);
  cells.insert(cells.end(), {time(prediction.step_us), time(body.least), time(body.median), time(body.most)});
  return cells;
}

std::string to_text(const SimulatedCase& answer) {
  if (!answer.simulation) {
    return to_text(answer.planned);
  }
  const Simulation& simulation = *answer.simulation;
  const PlannedNetwork& planned = answer.planned.planned;
  const Spread body = spread_of(simulation.body_us), wait = spread_of(simulation.wait_us);
  std::string text = describe(planned.network) + " on " + answer.planned.chip + ", simulated\n\n";
  const auto line = [&](const char* title, const std::string& value) {
    text += std::string(title) + std::string(10 - std::string_view(title).size(), ' ') + value + '\n';
  };
  line("step", time_text(simulation.step_us, simulation.low_us, simulation.high_us) + ", " +
                   fixed(simulation.step_us * planned.network.steps, 0) + " us for " +
                   std::to_string(planned.network.steps) + " steps");
  line("predicted", fixed(planned.prediction.step_us, 2) + " us by the analytic model");
  line("floor",
       fixed(planned.prediction.floor_us, 2) + " us: no step is below, by the loads, the products and the exchange");
  line("bound by", std::string(name(simulation.binding())) + " in time, " +
                       std::string(info(planned.prediction.footprint.binding).name) + " in size");
  line("SMs", "busy " + fixed(body.least, 3) + " to " + fixed(body.most, 3) + " us (median " + fixed(body.median, 3) +
                  "), then wait " + fixed(wait.least, 3) + " to " + fixed(wait.most, 3) + " us for the others' state");
  line("plan", to_string(planned.plan));
  return text + '\n' + to_aligned(parts_table(simulation, &planned.prediction)) + '\n' + to_text(answer.banks);
}

// A kernel from a file: a step, and one whose blocks exchange nothing. The JSON is without the chip.
Report report_step(const std::string& kernel, const Chip& chip, const Simulation& simulation, const SmBanks& banks) {
  const double cycles = simulation.step_us * chip.clock_hz / 1e6;
  const std::string sms = std::to_string(simulation.body_us.size());
  Report report;
  report.json = to_json(simulation);
  report.json.update({{"kernel", kernel},
                      {"blocks", simulation.body_us.size()},
                      {"us", rounded(simulation.step_us)},
                      {"cycles", rounded(cycles)},
                      {"shared_memory", to_json(banks)}});
  report.csv.columns = {"kernel", "chip", "blocks", "cycles", "us"};
  report.csv.rows = {{kernel, chip.name, sms, significant(cycles, 6), significant(simulation.step_us, 6)}};
  for (std::size_t i = 0; i < kStepPartNames.size(); ++i) {
    report.csv.columns.push_back(std::string(kStepPartNames[i]) + "_us");
    report.csv.rows[0].push_back(significant(simulation.parts_us[i], 6));
  }
  report.text = kernel + ": a recorded step of " + sms + " SMs on " + chip.name + ": " +
                time_text(simulation.step_us, simulation.low_us, simulation.high_us) + "\n\n" +
                to_aligned(parts_table(simulation, nullptr)) + '\n' + to_text(banks);
  return report;
}

Report report_blocks(const std::string& kernel, const Chip& chip, const TraceRun& run, const SmBanks& banks) {
  const double us = run.cycles() * 1e6 / chip.clock_hz;
  Causes causes{};
  std::vector<double> cycles;
  for (const SmRun& sm : run.sms) {
    std::transform(causes.begin(), causes.end(), sm.causes.begin(), causes.begin(), std::plus<>());
    cycles.push_back(static_cast<double>(sm.cycles));
  }
  const Spread sms = spread_of(cycles);
  Report report;
  report.json = {{"kernel", kernel},
                 {"blocks", banks.all.size()},
                 {"blocks_on_an_sm", run.resident},
                 {"cycles", rounded(run.cycles(), 12)},
                 {"us", rounded(us)},
                 {"parts", Json::array()},
                 {"sms", {{"least_cycles", sms.least}, {"median_cycles", sms.median}, {"most_cycles", sms.most}}},
                 {"shared_memory", to_json(banks)}};
  report.csv.columns = {"kernel", "chip", "blocks", "cycles", "us"};
  report.csv.rows = {
      {kernel, chip.name, std::to_string(banks.all.size()), format_number(run.cycles()), significant(us, 6)}};
  Table parts{{"cause", "cycles of all SMs"}, {}};
  for (std::size_t i = 0; i < causes.size(); ++i) {
    report.json["parts"].push_back({{"name", kCauseNames[i]}, {"cycles", rounded(causes[i], 12)}});
    report.csv.columns.push_back(std::string(kCauseNames[i]) + "_cycles");
    report.csv.rows[0].push_back(significant(causes[i], 12));
    parts.rows.push_back({std::string(kCauseNames[i]), fixed(causes[i], 0)});
  }
  report.text = kernel + ": " + std::to_string(banks.all.size()) + " blocks on " + chip.name + ", up to " +
                std::to_string(run.resident) + " at a time on an SM: " + format_number(run.cycles()) + " cycles, " +
                fixed(us, 2) + " us, without what the blocks exchange: the trace does not tell\n\n" +
                to_aligned(parts) + '\n' + to_text(banks);
  return report;
}

// ---- what is written beside the answer: a trace, a timeline, every access to shared memory --------------------------

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
    table.rows.push_back(
        {std::to_string(access.warp), std::to_string(access.instruction), std::string(name(access.operation)),
         std::to_string(access.width), std::to_string(access.lanes), std::to_string(access.cost.wavefronts),
         std::to_string(access.cost.ideal), std::to_string(access.cost.words), std::to_string(access.cost.multicasts),
         with_blanks(access.busiest), with_blanks(access.addresses)});
  }
  write_file(path, to_csv(table));
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
  write_file(path, to_chrome_trace(timeline));
}

void write_block_timeline(const std::string& path, const Chip& chip, const TraceSource& source, SmOptions options,
                          int shown) {
  options.events = true;
  const BlockTrace block = source.block(shown);
  const SmRun run = run_sm(chip, {&block, 1}, options);
  write_file(path, to_chrome_trace(
                       {{"block " + std::to_string(shown)}, {"warp"}, warp_spans(block, run, 0, 1e6 / chip.clock_hz)}));
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

// ---- simulations ----------------------------------------------------------------------------------------------------

// Of the family whose steps are replayed, unless another is asked for, which is refused by name.
Configuration of_replayed_family(Configuration configuration) {
  if (!configuration.constraints.family) {
    configuration.constraints.family = SparsePlan::kName;
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
  options.refuse({"record", "timeline", "accesses", "sm"},
                 "is of one kernel, but the list has " + std::to_string(paths.size()) +
                     ": name a trace of it, such as '" + paths[0].string() + "'",
                 paths.size() > 1);
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

std::vector<OptionGroup> simulate_options() {
  return {chip_options(),      network_options(),       plan_options(),     whole_plan_option(),
          file_options(),      whole_network_options(), training_options(), feed_forward_options({"images"}),
          simulator_options(), output_options()};
}

int run_simulate(const Options& options) {
  if (asks_feed_forward(options, {network_options(), plan_options(), file_options()})) {
    options.refuse({"without"}, "changes times, and --network says none");
    return simulate_feed_forward(options, read_chip(options).chip, read_simulation(options).threads);
  }
  if (asks_training(options)) {
    refuse_beside(options, "mode", {file_options()}, {});
    return simulate_training(options, read_chip(options), read_training(options), read_simulation(options));
  }
  if (const std::optional<Stack> stack = read_stack(options)) {
    refuse_beside(options, "layers", {file_options()}, {});
    return simulate_training(options, read_chip(options), read_stack_to_run(options, *stack), read_simulation(options));
  }
  if (!options.given("trace") && options.given("configurations")) {
    return simulate_many(options);
  }
  const ChipFile chip = read_chip(options);
  const SimulationOptions simulation = read_simulation(options);
  return options.given("trace") ? simulate_trace(options, chip, simulation) : simulate_one(options, chip, simulation);
}

}  // namespace

const Verb kSimulateVerb{
    "simulate", "Replay one time step, address by address and cycle by cycle, or a trace from a file.",
    "onchip simulate --hidden 2304 --density 30% --timeline step.json", simulate_options, run_simulate};

}  // namespace onchip
