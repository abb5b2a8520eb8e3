// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/configuration_rows.hpp"

#include "model/answer/case_columns.hpp"
#include "model/answer/constraint_words.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"

#include <cmath>
#include <filesystem>

namespace onchip {

std::vector<std::string> configuration_columns() {
  return configuration_table().table({}).columns;
}

std::vector<std::string> configuration_cells(const Configuration& configuration) {
  return configuration_table().cells(configuration);
}

double read_whole(const CsvReader& file, std::size_t row, const char* column, double maximum) {
  const double value = file.number(row, column);
  if (!(value >= 0 && value <= maximum) || value != std::floor(value)) {
    file.fail(row, "column '" + std::string(column) + "': found " + in_quotes(file.text(row, column)) +
                       ": expected a whole number from 0 to " + format_number(maximum));
  }
  return value;
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

Configuration read_configuration_row(const CsvReader& file, std::size_t row, bool with_weights,
                                     const Configuration* otherwise) {
  const auto has = [&](const char* column) { return file.has(column) && !file.text(row, column).empty(); };
  const auto is_read = [&](const char* column) { return otherwise == nullptr || has(column); };
  const auto whole = [&](const char* column) { return static_cast<int>(read_whole(file, row, column)); };
  Configuration configuration = otherwise != nullptr ? *otherwise : Configuration();
  Recurrent& network = configuration.network;
  network.hidden = whole("hidden");
  network.batch = whole("batch");
  network.steps = is_read("steps") ? whole("steps") : network.steps;
  network.density = is_read("density") ? file.number(row, "density") : network.density;
  if (is_read("seed")) {
    configuration.seed = static_cast<std::uint64_t>(read_whole(file, row, "seed", static_cast<double>(kMostSeed)));
  }
  try {
    network.cell = parse_cell(file.text(row, "cell"));
    network.precision = parse_precision(file.text(row, "precision"));
    if (has("weights")) {
      if (with_weights) {
        take_row_weights(configuration, file, row);
      }
    } else if (is_read("mask")) {
      configuration.mask = parse_mask(file.text(row, "mask"));
    }
    check(network);
    if (has("plan") && otherwise == nullptr) {
      configuration.plan = parse_recurrent_plan(file.text(row, "plan"));
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
