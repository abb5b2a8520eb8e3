// SPDX-License-Identifier: Apache-2.0
// onchip chips: what hardware is known, and where each number comes from.
#include "experiments/command/output.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/page/answers.hpp"

#include "model/base/error.hpp"
#include "model/base/joined.hpp"
#include "model/base/units.hpp"
#include "model/chip/cost_terms.hpp"
#include "model/exchange/exchange_time.hpp"
#include "model/sparse/register_costs.hpp"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>

namespace onchip {
namespace {

struct ChipColumn {
  std::string_view json, title;  // title: with the unit, for the table
  double (*of)(const Chip&);
};
constexpr ChipColumn kColumns[] = {
    {"sm_count", "SMs", [](const Chip& chip) { return chip.sm_count.value; }},
    {"clock_mhz", "MHz", [](const Chip& chip) { return chip.clock_hz / 1e6; }},
    {"registers_kib_per_sm", "registers KiB/SM", [](const Chip& chip) { return 4 * chip.registers_per_sm / 1024; }},
    {"shared_memory_kib_per_sm", "shared KiB/SM", [](const Chip& chip) { return chip.smem_bytes_per_sm / 1024; }},
    {"l2_mib", "L2 MiB", [](const Chip& chip) { return chip.l2_bytes / (1024 * 1024); }},
    {"dram_gb_per_second", "DRAM GB/s", [](const Chip& chip) { return chip.dram_bytes_per_second / 1e9; }},
    {"exchange_us", "exchange us",
     [](const Chip& chip) { return rounded(first_word_cycles(chip) / chip.clock_hz * 1e6, 4); }},
};

Report list_chips() {
  Table csv{{"chip", "architecture"}, {}}, shown = csv;
  for (const ChipColumn& column : kColumns) {
    csv.columns.emplace_back(column.json);
    shown.columns.emplace_back(column.title);
  }
  for (const std::string& name : shipped_chips()) {
    const Chip chip = find_chip(name).chip;
    std::vector<std::string> cells{chip.name, chip.architecture};
    for (const ChipColumn& column : kColumns) {
      cells.push_back(format_number(rounded(column.of(chip))));
    }
    csv.rows.push_back(cells);
    if (cells[1].empty()) {
      cells[1] = "-";
    }
    shown.rows.push_back(std::move(cells));
  }
  return {to_aligned(shown), csv, {{"chips", to_json(csv)}}};
}

Report show_chip(const ChipFile& file) {
  Report report;
  report.csv.columns = {"key", "value", "unit", "low", "high", "source"};
  Table shown{{"key", "value", "unit", "95 % interval", "meaning"}, {}};
  std::map<std::string, std::vector<std::string_view>, std::less<>> keys_of;  // by source, in the order of the keys
  std::vector<std::string> sources;
  report.json = {{"chip", file.chip.name}, {"architecture", file.chip.architecture}, {"numbers", Json::array()}};
  for (const ChipKey& key : chip_keys()) {
    const Number number = file.chip.*key.member;
    const Provenance& provenance = file.provenance.find(key.key)->second;
    const double factor = unit_factor(key.dimension, provenance.unit);
    const double value = rounded(number.value / factor, 9), half_width = number.half_width / factor;
    const double low = rounded(std::max(value - half_width, key.minimum / factor));
    const double high = rounded(std::min(value + half_width, key.maximum / factor));
    Json json{{"key", key.key}, {"value", value}, {"unit", provenance.unit}};
    json["interval"] = half_width > 0 ? Json{low, high} : Json(nullptr);
    json["source"] = provenance.source;
    report.json["numbers"].push_back(std::move(json));
    const bool exact = half_width <= 0;
    report.csv.rows.push_back({std::string(key.key), format_number(value), provenance.unit,
                               exact ? "" : format_number(low), exact ? "" : format_number(high), provenance.source});
    shown.rows.push_back({std::string(key.key), format_number(value), provenance.unit == "1" ? "" : provenance.unit,
                          exact ? "" : format_number(low) + " to " + format_number(high), std::string(key.meaning)});
    if (!keys_of.contains(provenance.source)) {
      sources.push_back(provenance.source);
    }
    keys_of[provenance.source].push_back(key.key);
  }
  report.text = file.chip.name + (file.chip.architecture.empty() ? "" : " (" + file.chip.architecture + ")") + "\n\n" +
                to_aligned(shown) + "\nsources\n";
  for (const std::string& source : sources) {
    report.text += "  " + joined(keys_of[source]) + "\n    " + source + '\n';
  }
  return report;
}

// Side by side, in the units of the first.
Report compare_chips(const std::vector<ChipFile>& files) {
  Report report;
  report.json = {{"chips", Json::array()}};
  Table shown{{"key"}, {}};
  report.csv.columns = {"key", "unit"};
  for (const ChipFile& file : files) {
    report.json["chips"].push_back(show_chip(file).json);
    shown.columns.push_back(file.chip.name);
    report.csv.columns.push_back(file.chip.name);
  }
  shown.columns.insert(shown.columns.end(), {"unit", "meaning"});
  for (const ChipKey& key : chip_keys()) {
    const std::string& unit = files.front().provenance.find(key.key)->second.unit;
    std::vector<std::string> values;
    for (const ChipFile& file : files) {
      values.push_back(format_number(rounded(file.chip.*key.member / unit_factor(key.dimension, unit), 9)));
    }
    auto& cells = report.csv.rows.emplace_back(std::vector{std::string(key.key), unit});
    cells.insert(cells.end(), values.begin(), values.end());
    values.insert(values.begin(), std::string(key.key));
    values.insert(values.end(), {unit == "1" ? "" : unit, std::string(key.meaning)});
    shown.rows.push_back(std::move(values));
  }
  report.text = to_aligned(shown);
  return report;
}

Report list_cost_terms(const CostValues& values) {
  Table csv{{"group", "term", "value", "neutral", "unit", "scales_with", "meaning", "fitted_to", "points"}, {}};
  Table shown{{"term", "value", "unit", "scales with", "fitted to", "points", "meaning"}, {}};
  for (const CostTerm& term : kCostTerms) {
    const std::string name(term.name), unit(term.unit), scales(term.scales), meaning(term.meaning),
        fitted_to(term.fitted_to), points = std::to_string(term.points),
                                   number = format_number(rounded(values[term.cost]));
    csv.rows.push_back({std::string(group_of(term.cost)), name, number, format_number(term.neutral), unit, scales,
                        meaning, fitted_to, points});
    shown.rows.push_back({name, number, unit, scales, fitted_to, points, meaning});
  }
  return {to_aligned(shown), csv, {{"terms", to_json(csv)}}};
}

Report list_register_costs() {
  Table csv{{"cost"}, {}};
  csv.columns.insert(csv.columns.end(), kRegisterArchitectures.begin(), kRegisterArchitectures.end());
  csv.columns.insert(csv.columns.end(), {"unit", "meaning", "source"});
  for (const RegisterCostRow& row : kRegisterCosts) {
    std::vector<std::string>& cells = csv.rows.emplace_back(1, std::string(row.name));
    std::ranges::transform(row.registers, std::back_inserter(cells), format_number);
    cells.insert(cells.end(), {"registers", std::string(row.meaning), std::string(row.source)});
  }
  return {to_aligned(csv), csv, {{"costs", to_json(csv)}}};
}

std::vector<OptionGroup> chips_options() {
  return {option_group(
              "Chip",
              {{"chip", "NAME|FILE...",
                "Show every number of this chip, or of several side by side; the option's name may be left out "
                "(default: list all chips). With -o NAME.toml or --format toml it is a chip file, which --chip takes."},
               {"set", "KEY=QUANTITY...", "Change a number of the chip; repeatable."},
               {"cost-terms", "", "List the terms of the prices instead: value, unit, what each was fitted to."},
               {"register-costs", "",
                "List what stands in for the compiler where there is none instead: registers of a thread of sparse "
                "plans beside its weights, by architecture."}}),
          output_options()};
}

int run_chips(const Options& options) {
  std::vector<ChipFile> chips;
  for (const std::string& name : options.list("chip")) {
    chips.push_back(with_changes(named_chip(name), options));
  }
  options.refuse({"set"}, "needs a chip: 'onchip chips NAME --set KEY=QUANTITY'", chips.empty());
  const std::string format = options.text("format");
  if (format == "toml" || (format.empty() && options.text("output").ends_with(".toml"))) {
    if (chips.size() != 1) {
      throw InputError("a chip file is of one chip: 'onchip chips NAME -o mine.toml'");
    }
    if (const std::string path = options.text("output"); path.empty() || path == "-") {
      std::cout << chip_text(chips.front());
    } else {
      write_file(path, chip_text(chips.front()));
    }
    return 0;
  }
  Output output(options);
  if (options.flag("cost-terms")) {
    output.write(list_cost_terms(chips.empty() ? kCostDefaults : chips.front().chip.cost));
  } else if (options.flag("register-costs")) {
    output.write(list_register_costs());
  } else {
    output.write(chips.empty() ? list_chips() : chips.size() == 1 ? show_chip(chips.front()) : compare_chips(chips));
  }
  return 0;
}

}  // namespace

const Verb kChipsVerb{"chips",
                      "List the chips that are shipped, every number of one with its source, or several side by side.",
                      "onchip chips H200",
                      chips_options,
                      run_chips,
                      "chip"};

}  // namespace onchip
