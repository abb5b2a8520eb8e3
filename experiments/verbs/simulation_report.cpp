// SPDX-License-Identifier: Apache-2.0
#include "experiments/verbs/simulation_report.hpp"

#include "experiments/validation/accuracy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
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

Json to_json(const Spread& spread) {
  return {{"least", rounded(spread.least)}, {"median", rounded(spread.median)}, {"most", rounded(spread.most)}};
}

Json rounded_list(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) {
    list.push_back(rounded(value));
  }
  return list;
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  return {quantile(values, 0), quantile(values, 0.5), quantile(values, 1)};
}

Json to_json(const std::vector<BlockBanks>& banks) {
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
  return json;
}

std::string to_text(const std::vector<BlockBanks>& banks) {
  Table table{{"shared memory", "instructions", "wavefronts", "without conflict", "conflict degree", "multicasts"}, {}};
  for (const Kind& kind : kKinds) {
    const Total of = total(banks, kind);
    table.rows.push_back({kind.name, std::to_string(of.instructions), std::to_string(of.wavefronts),
                          std::to_string(of.ideal), fixed(of.conflict_degree(), 3), std::to_string(of.multicasts)});
  }
  return to_aligned(table);
}

Json to_json(const SimulatedCase& answer) {
  Json json = versioned(to_json(answer.planned, Binding::term));
  if (!answer.simulation) {
    return json;
  }
  const Simulation& simulation = *answer.simulation;
  json["binding"] = name(simulation.binding());
  json["step_us"] = rounded(simulation.step_us);
  json["interval_us"] = {rounded(simulation.low_us), rounded(simulation.high_us)};
  json["floor_us"] = rounded(simulation.floor_us);
  json["terms"] = Json::array();
  for (std::size_t i = 0; i < kStepPartNames.size(); ++i) {
    json["terms"].push_back({{"name", kStepPartNames[i]}, {"us", rounded(simulation.parts_us[i])}});
  }
  json["predicted_us"] = rounded(answer.planned.planned.prediction.step_us);
  json["sms"] = {{"body_us", to_json(spread_of(simulation.body_us))},
                 {"wait_us", to_json(spread_of(simulation.wait_us))},
                 {"body_us_of_each", rounded_list(simulation.body_us)},
                 {"polls", rounded(simulation.polls)}};
  if (!answer.banks.empty()) {
    json["shared_memory"] = to_json(answer.banks);
  }
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
                             time(simulation.low_us), time(simulation.high_us), time(simulation.floor_us)});
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
  line("step", fixed(simulation.step_us, 2) + " us (95 %: " + fixed(simulation.low_us, 2) + " to " +
                   fixed(simulation.high_us, 2) + "), " + fixed(simulation.step_us * planned.network.steps, 0) +
                   " us for " + std::to_string(planned.network.steps) + " steps");
  line("predicted", fixed(planned.prediction.step_us, 2) + " us by the analytic model");
  line("floor", fixed(simulation.floor_us, 2) + " us: the exchange of the state and conflict-free loads");
  line("bound by", std::string(name(simulation.binding())) + " in time, " +
                       std::string(info(planned.prediction.footprint.binding).name) + " in size");
  line("SMs", "busy " + fixed(body.least, 3) + " to " + fixed(body.most, 3) + " us (median " + fixed(body.median, 3) +
                  "), then wait " + fixed(wait.least, 3) + " to " + fixed(wait.most, 3) + " us for the others' state");
  line("plan", to_string(planned.plan));
  Table parts{{"part", "us", "share %", ""}, {}};
  for (std::size_t i = 0; i < kStepPartNames.size(); ++i) {
    const double share = simulation.parts_us[i] / simulation.step_us;
    parts.rows.push_back({std::string(kStepPartNames[i]), fixed(simulation.parts_us[i], 3), fixed(100 * share, 1),
                          std::string(static_cast<std::size_t>(std::max(0.0, std::round(40 * share))), '#')});
  }
  text += '\n' + to_aligned(parts);
  return answer.banks.empty() ? text : text + '\n' + to_text(answer.banks);
}

}  // namespace onchip
