// SPDX-License-Identifier: Apache-2.0
#include "experiments/claims/renew.hpp"

#include "experiments/command/configuration_rows.hpp"
#include "experiments/command/program.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/measurement/manifest.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/is_there.hpp"
#include "model/base/output_file.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/measurement/measured_rows.hpp"
#include "kernels/runtime/device_chip.hpp"
#endif

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

namespace onchip {

#ifdef ONCHIP_HAS_CUDA
namespace {

namespace fs = std::filesystem;

// ---- one file of rows -----------------------------------------------------------------------------------------------

// Rows of a claim, and what makes them.
struct Asked {
  std::string name, suffix;  // of the file that has the question
  std::string question;      // rows are measured again if it is another
  std::function<void(const fs::path& question, const fs::path& rows)> measure;
};

// Whether the folder has the rows then. The manifest is written last.
bool measure_if_new(const Asked& asked, const fs::path& folder) {
  const fs::path rows = folder / (asked.name + ".csv"), question = folder / (asked.name + asked.suffix);
  if (is_there(manifest_path(rows)) && is_there(question) && InputFile(question).bytes() == asked.question) {
    return true;
  }
  std::cerr << "onchip: measuring " << asked.name << '\n';
  fs::remove(manifest_path(rows));
  fs::remove(rows);
  write_file(question, asked.question);
  const Manifest manifest = current_manifest();  // throws where there is no GPU
  try {
    asked.measure(question, rows);
  } catch (const std::exception& error) {
    std::cerr << "onchip: " << asked.name << ": " << error.what() << '\n';
  }
  if (!is_there(rows)) {
    return false;
  }
  write_file(manifest_path(rows), to_json_text(manifest));
  return true;
}

void measure(std::vector<std::string> arguments, const std::string& chip, const fs::path& rows) {
  arguments.insert(arguments.end(), {"--chip", chip, "-o", rows.string()});
  run_verb(kMeasureVerb, std::move(arguments));
}

// ---- what a claim asks for ------------------------------------------------------------------------------------------

using Rows = std::set<std::vector<std::string>>;

// Kernels with their plans, then all families at the sizes at which libraries are compared; not those that a claim
// before it asked for.
std::vector<Asked> steps_of(const Recipe& recipe, MeasuredRows& measured, const Chip& chip, Rows& known) {
  std::array<Table, 2> asked{Table{configuration_columns(), {}}, Table{configuration_columns(), {}}};
  asked[0].columns.emplace_back("plan");
  for (const MeasuredRow& row : rows_of(recipe, measured, chip)) {
    if (is_stale(row).value_or(false)) {
      std::cerr << "stale until now: " << describe(row) << '\n';
    }
    Configuration configuration;
    configuration.network = row.network;
    configuration.seed = row.seed;
    std::vector<std::string> cells = configuration_cells(configuration);
    if (!row.is_library) {
      cells.push_back(to_string(row.plan));
    }
    if (known.insert(cells).second) {
      asked[row.is_library].rows.push_back(std::move(cells));
    }
  }
  std::vector<Asked> files;
  for (const bool are_families : {false, true}) {
    if (!asked[are_families].rows.empty()) {
      files.push_back({recipe.name + (are_families ? "_families" : "_kernels"), "_configurations.csv",
                       to_csv(asked[are_families]), [=, name = chip.name](const auto& question, const auto& rows) {
                         std::vector<std::string> arguments{"--configurations", question.string()};
                         if (are_families) {
                           arguments.insert(arguments.end(), {"--plan", "all"});
                         }
                         measure(arguments, name, rows);
                       }});
    }
  }
  return files;
}

std::vector<Asked> inferences_of(const Recipe& recipe, const std::string& chip) {
  std::vector<Asked> files;
  for (std::size_t i = 0; i < recipe.networks.size(); ++i) {
    for (const RecipeWay& way : recipe.ways) {
      const std::vector<std::string> arguments{
          "--network", recipe.networks[i].feed_forward, "--plan", way.plan, "--repeats", "7"};
      files.push_back({recipe.name + "_" + way.name + "_" + std::to_string(i + 1), ".txt",
                       arguments[1] + '\n' + arguments[3] + '\n',
                       [=](const auto&, const auto& rows) { measure(arguments, chip, rows); }});
    }
  }
  return files;
}

// By a script of ours, with our own Python package before others.
void run_script(const fs::path& script, const fs::path& rows) {
  if (const fs::path package = script.parent_path() / "../../../python"; is_there(package)) {
    const char* const other = std::getenv("PYTHONPATH");
    ::setenv("PYTHONPATH", (fs::canonical(package).string() + (other ? ":" + std::string(other) : "")).c_str(), 1);
  }
  const fs::path growing = rows.string() + ".part";
  const int status = run_program({"/usr/bin/env", "python3", script.string()}, growing, /*errors_too=*/false);
  if (status != 0) {
    fs::remove(growing);
    throw InputError(script.filename().string() + " ended with exit status " + std::to_string(status));
  }
  fs::rename(growing, rows);
}

std::vector<Asked> all_of(const Recipe& recipe, MeasuredRows& measured, const Chip& chip, Rows& known) {
  if (is_feed_forward(recipe)) {
    return inferences_of(recipe, chip.name);
  }
  if (!recipe.script.empty()) {  // of several claims, measured once
    const fs::path script = shipped_recipes().parent_path() / recipe.script;
    return {{script.stem().string(), ".txt", recipe.script + '\n',
             [=](const auto&, const auto& rows) { run_script(script, rows); }}};
  }
  if (!recipe.measure.empty()) {
    std::istringstream words(recipe.measure);
    const std::vector<std::string> arguments{std::istream_iterator<std::string>(words), {}};
    return {{recipe.name, ".txt", recipe.measure + '\n',
             [=, name = chip.name](const auto&, const auto& rows) { measure(arguments, name, rows); }}};
  }
  return steps_of(recipe, measured, chip, known);
}

}  // namespace
#endif

Renewed measure_anew([[maybe_unused]] std::span<const Recipe> recipes, [[maybe_unused]] MeasuredRows& measured,
                     [[maybe_unused]] const std::filesystem::path& folder, [[maybe_unused]] const std::string& chip) {
#ifdef ONCHIP_HAS_CUDA
  const Chip of = chip.empty() ? device_chip_file().chip : find_chip(chip).chip;
  fs::create_directories(folder);
  Renewed renewed{of.name, {}};
  Rows known;
  for (const Recipe& recipe : recipes) {
    if (const std::string why = why_not_measured(recipe); !why.empty()) {
      std::cerr << "onchip: " << recipe.name << " is not measured: " << why << '\n';
      continue;
    }
    for (const Asked& asked : all_of(recipe, measured, of, known)) {
      fs::path rows = folder / (asked.name + ".csv");
      if (measure_if_new(asked, folder) && std::ranges::find(renewed.files, rows) == renewed.files.end()) {
        renewed.files.push_back(std::move(rows));
      }
    }
  }
  return renewed;
#else
  throw InputError("built without CUDA: --measure needs a CUDA toolkit when onchip is configured");
#endif
}

}  // namespace onchip
