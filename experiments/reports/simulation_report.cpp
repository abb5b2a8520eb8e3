// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/simulation_report.hpp"

#include "experiments/command/configuration_rows.hpp"
#include "model/base/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

namespace onchip {
namespace {

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

std::vector<std::int64_t> heat(const std::vector<BlockBanks>& banks) {
  std::vector<std::int64_t> sum(banks.empty() ? 0 : banks.front().heat.size());
  for (const BlockBanks& block : banks) {
    std::transform(sum.begin(), sum.end(), block.heat.begin(), sum.begin(), std::plus<>());
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

Json rounded_list(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) {
    list.push_back(rounded(value));
  }
  return list;
}

// Of a block's accesses, those that are shown.
constexpr std::size_t kWorst = 10;

std::string bar(double share) {
  return std::string(static_cast<std::size_t>(std::clamp(std::round(40 * share), 0.0, 40.0)), '#');
}

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
            ", bank " + joined(access.busiest) + "\n    addresses " + joined(access.addresses) + '\n';
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
  json["heat"] = heat(banks);
  json["wavefronts_per_block"] = Json::array();
  for (const BlockBanks& block : banks) {
    std::int64_t wavefronts = 0;
    for (const Kind& kind : kKinds) {
      wavefronts += total({&block, 1}, kind).wavefronts;
    }
    json["wavefronts_per_block"].push_back(wavefronts);
  }
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
              {"body_us_of_each", rounded_list(simulation.body_us)},
              {"polls", rounded(simulation.polls)}}}};
  for (std::size_t i = 0; i < kStepPartNames.size(); ++i) {
    json["terms"].push_back({{"name", kStepPartNames[i]}, {"us", rounded(simulation.parts_us[i])}});
  }
  return json;
}

std::string times_text(const Simulation& simulation) {
  return fixed(simulation.step_us, 2) + " us (95 %: " + fixed(simulation.low_us, 2) + " to " +
         fixed(simulation.high_us, 2) + ")";
}

}  // namespace

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
  for (const char* column : {"plan", "fits", "binding", "step_us", "low_us", "high_us", "floor_us"}) {
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
    cells.insert(cells.end(), {truth(false), std::string(info(prediction.footprint.binding).name)});
    cells.resize(simulation_columns().size());
    return cells;
  }
  const Simulation& simulation = *answer.simulation;
  const auto time = [](double us) { return significant(us, 6); };
  cells.insert(cells.end(), {truth(true), std::string(name(simulation.binding())), time(simulation.step_us),
                             time(simulation.low_us), time(simulation.high_us), time(prediction.floor_us)});
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
  line("step", times_text(simulation) + ", " + fixed(simulation.step_us * planned.network.steps, 0) + " us for " +
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
  report.text = kernel + ": a recorded step of " + sms + " SMs on " + chip.name + ": " + times_text(simulation) +
                "\n\n" + to_aligned(parts_table(simulation, nullptr)) + '\n' + to_text(banks);
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

}  // namespace onchip
