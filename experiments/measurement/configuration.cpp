// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/configuration.hpp"

#include "model/answer/constraint_words.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/units.hpp"
#include "model/workload/files/weights_file.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "kernels/api/confirmed_plan.hpp"
#include "kernels/recurrent/program.hpp"
#endif

#include <algorithm>
#include <cmath>

namespace onchip {

void take_weights(Configuration& configuration, const std::filesystem::path& file) {
  const int gates = info(configuration.network.cell).gates;
  take_matrix(configuration, read_weights(file, {configuration.tensor, configuration.transpose, gates}), file.string());
}

namespace {

#ifdef ONCHIP_HAS_CUDA

// The compiler's report on the plan's kernel, if it spills.
std::optional<ResourceReport> find_spill(const PlannedNetwork& planned, const std::string& architecture) {
  if (!is_on_chip(planned.plan)) {
    return std::nullopt;
  }
  const ResourceReport report = compile(compile_request(planned.network, planned.plan, architecture)).resources;
  return report.spills() ? std::optional(report) : std::nullopt;
}

void let_compiler_decide(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                         const std::string& architecture, ChosenPlan& chosen) {
  if (!chosen.prediction.footprint.fits) {
    return;
  }
  const std::optional<ResourceReport> spill = find_spill(chosen, architecture);
  if (!spill) {
    return;
  }
  if (!configuration.plan) {
    const Confirmed<PlannedNetwork> confirmed =
        confirmed_plan(chip, chosen.network, rows, configuration.constraints, architecture);
    if (confirmed.refused) {
      chosen = {confirmed.chosen, confirmed.refused->plan};
      return;
    }
  }
  Footprint& need = chosen.prediction.footprint;
  ResourceUse& registers = need.resources[static_cast<std::size_t>(Resource::registers)];
  registers.used = registers.available + spill->lacking_registers();
  need.binding = Resource::registers;
  need.fits = false;
  need.registers_in_doubt = false;
}

#else

[[noreturn]] void let_compiler_decide(const Chip&, const Configuration&, const RowProfile&, const std::string&,
                                      ChosenPlan&) {
  throw InputError("built without CUDA: no compiler can be asked");
}

#endif

}  // namespace

ChosenPlan compiled_plan(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                         const std::string& architecture) {
  ChosenPlan chosen{plan_network(chip, configuration, rows)};
  if (!architecture.empty()) {
    let_compiler_decide(chip, configuration, rows, architecture, chosen);
  }
  return chosen;
}

std::vector<RankedPlan> rank_compiled_plans(const Chip& chip, const Configuration& configuration,
                                            const RowProfile& rows, const std::string& architecture) {
  if (const std::string_view family = configuration.family(); !family.empty()) {
    return {{find_family(family).name, compiled_plan(chip, configuration, rows, architecture), "asked for"}};
  }
  const std::vector<RankedPlan> by_model = rank_plans(chip, configuration, rows);
#ifdef ONCHIP_HAS_CUDA
  std::vector<RankedPlan> ranking =
      confirmed_ranking(chip, configuration.network, rows, configuration.constraints, architecture).chosen;
  for (RankedPlan& ranked : ranking) {
    const auto said = std::ranges::find(by_model, ranked.family, &RankedPlan::family);
    if (ranked.planned && said->planned && ranked.planned->plan != said->planned->plan) {
      ranked.why += "; not the model's choice, since the compiler spills one: " + to_string(said->planned->plan);
    }
  }
  return ranking;
#else
  throw InputError("built without CUDA: no compiler can be asked");
#endif
}

std::vector<std::string> configuration_columns() {
  return {"cell", "hidden", "batch", "steps", "density", "precision", "mask", "seed", "weights", "tensor", "transpose"};
}

std::vector<std::string> configuration_cells(const Configuration& configuration) {
  const Recurrent& network = configuration.network;
  return {std::string(info(network.cell).name),
          std::to_string(network.hidden),
          std::to_string(network.batch),
          std::to_string(network.steps),
          format_number(network.density),
          std::string(info(network.precision).name),
          std::string(mask_name(configuration)),
          std::to_string(configuration.seed),
          configuration.weights_file,
          configuration.tensor,
          configuration.transpose ? "true" : ""};
}

namespace {

// Of the row's own file, which lies where the table lies if its name is no absolute one.
void take_row_weights(Configuration& configuration, const CsvReader& file, std::size_t row) {
  const int hidden = configuration.network.hidden;
  configuration.weights_file = file.text(row, "weights");
  configuration.tensor = file.has("tensor") ? file.text(row, "tensor") : "";
  configuration.transpose = file.has("transpose") && file.text(row, "transpose") == "true";
  const auto folder = std::filesystem::path(file.file()).parent_path();
  take_weights(configuration, folder / configuration.weights_file);
  if (hidden != configuration.network.hidden) {
    throw InputError(in_quotes(configuration.weights_file) + " has " + std::to_string(configuration.network.hidden) +
                     " hidden units, the row " + std::to_string(hidden));
  }
}

}  // namespace

Configuration read_configuration_row(const CsvReader& file, std::size_t row, bool with_weights) {
  const auto whole = [&](const char* column, double maximum) {
    const double value = file.number(row, column);
    if (!(value >= 0 && value <= maximum) || value != std::floor(value)) {
      file.fail(row, "column '" + std::string(column) + "': found " + in_quotes(file.text(row, column)) +
                         ": expected a whole number from 0 to " + format_number(maximum));
    }
    return value;
  };
  constexpr double kInt = 2147483647;
  Configuration configuration;
  Recurrent& network = configuration.network;
  network.hidden = static_cast<int>(whole("hidden", kInt));
  network.batch = static_cast<int>(whole("batch", kInt));
  network.steps = static_cast<int>(whole("steps", kInt));
  network.density = file.number(row, "density");
  configuration.seed = static_cast<std::uint64_t>(whole("seed", static_cast<double>(kMostSeed)));
  try {
    network.cell = parse_cell(file.text(row, "cell"));
    network.precision = parse_precision(file.text(row, "precision"));
    if (file.has("weights") && !file.text(row, "weights").empty()) {
      if (with_weights) {
        take_row_weights(configuration, file, row);
      }
    } else {
      configuration.mask = parse_mask(file.text(row, "mask"));
    }
    check(network);
    const auto has = [&](const char* column) { return file.has(column) && !file.text(row, column).empty(); };
    if (has("plan")) {
      configuration.plan = parse_plan(file.text(row, "plan"));
    } else if (has("family")) {
      configuration.constraints.family = find_family(file.text(row, "family")).name;
    }
    if (has("storage")) {
      fix_field(configuration.constraints, "storage", file.text(row, "storage"));
    }
    if (has("tier")) {
      configuration.constraints.tier = parse_tier(file.text(row, "tier"));
    }
  } catch (const InputError& error) {
    file.fail(row, error.what());
  }
  return configuration;
}

}  // namespace onchip
