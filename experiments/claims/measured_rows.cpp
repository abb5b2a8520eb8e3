// SPDX-License-Identifier: Apache-2.0
#include "experiments/claims/measured_rows.hpp"

#include "experiments/command/configuration_rows.hpp"
#include "experiments/measurement/manifest.hpp"
#include "model/answer/json.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/shipped.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "kernels/recurrent/program.hpp"
#endif

#include <algorithm>
#include <cmath>

namespace onchip {
namespace {

std::vector<MeasuredRow> read_measured(const std::filesystem::path& path) {
  const CsvReader file(path);
  const auto beside = manifest_path(path);
  const std::string architecture = std::filesystem::exists(beside) ? read_manifest(beside).architecture : "";
  std::vector<MeasuredRow> rows;
  for (std::size_t i = 0; i < file.size(); ++i) {
    const std::string& correct = file.has("correct") ? file.text(i, "correct") : "true";
    if (file.text(i, "step_us").empty() || file.text(i, "plan").empty() || file.text(i, "mask") != "uniform" ||
        correct == "false" || correct == "0") {
      continue;
    }
    const Configuration configuration = read_configuration_row(file, i);
    rows.push_back({configuration.network, *configuration.plan, !is_on_chip(*configuration.plan),
                    file.number(i, "step_us"), configuration.seed, file.text(i, "fingerprint"), architecture});
  }
  return rows;
}

// The libraries beside a kernel: `measure --baselines`.
std::vector<MeasuredRow> read_baselines(const std::filesystem::path& path) {
  const MappedFile mapped(path);
  try {
    const Json answer = Json::parse(mapped.bytes());
    const Json& of = answer.at("network");
    Recurrent network;
    network.cell = parse_cell(of.at("cell").get<std::string>());
    network.hidden = of.at("hidden");
    network.batch = of.at("batch");
    network.density = of.at("density");
    network.precision = parse_precision(of.at("precision").get<std::string>());
    std::vector<MeasuredRow> rows;
    for (const Json& baseline : answer.at("baselines")) {
      if (baseline.at("ran").get<bool>()) {  // "cudnn STANDARD B=4 graph"
        const std::string library = baseline.at("name").get<std::string>();
        const std::string_view first = std::string_view(library).substr(0, library.find(' '));
        const auto family = std::ranges::find_if(
            kLibraryNames, [&](std::string_view known) { return known.substr(0, known.find('_')) == first; });
        if (family != kLibraryNames.end()) {
          rows.push_back(
              {network, parse_recurrent_plan(*family), true, baseline.at("step_us").at("median"), 1, "", ""});
        }
      }
    }
    return rows;
  } catch (const Json::exception& error) {
    throw InputError(path.string() + ": no answer of 'onchip measure --baselines --format json': " + error.what());
  }
}

// A dense matrix takes a library as long whatever is in it.
bool depends_on_density(const RecurrentPlan& plan) {
  return is_on_chip(plan) || std::holds_alternative<CusparsePlan>(plan);
}

bool is_of(const MeasuredRow& row, const Recurrent& network, bool whatever_density) {
  const Recurrent& a = row.network;
  return a.cell == network.cell && a.hidden == network.hidden && a.batch == network.batch &&
         a.precision == network.precision &&
         (whatever_density ? !depends_on_density(row.plan) : std::abs(a.density - network.density) < 1e-6);
}

bool has_fixed_fields(const RecurrentPlan& plan, const Constraints& constraints) {
  return std::visit(
      [&](const auto& of) {
        const auto table = fields(of);
        return std::ranges::all_of(constraints.fixed, [&](const FixedField& fixed) {
          const auto field = std::ranges::find(table, fixed.name, [](const auto& f) { return f.name; });
          return field == table.end() ? fixed.is_usual : field->get(of) == fixed.value;
        });
      },
      plan);
}

bool is_way(const MeasuredRow& row, const RecipeWay& way) {
  return way.is_library
             ? row.is_library
             : (!way.constraints.family || family_name(row.plan) == *way.constraints.family) &&
                   (way.constraints.family || !row.is_library) && has_fixed_fields(row.plan, way.constraints);
}

}  // namespace

const std::vector<MeasuredRow>& MeasuredRows::of(const std::filesystem::path& file) {
  const auto known = files_.find(file);
  if (known != files_.end()) {
    return known->second;
  }
  return files_.emplace(file, file.extension() == ".json" ? read_baselines(file) : read_measured(file)).first->second;
}

std::string describe(const MeasuredRow& row) {
  return describe(row.network) + ", " + to_string(row.plan);
}

std::optional<bool> is_stale([[maybe_unused]] const MeasuredRow& row) {
#ifdef ONCHIP_HAS_CUDA
  if (!row.is_library && !row.architecture.empty()) {
    return row.fingerprint != fingerprint(compile_request(row.network, row.plan, row.architecture));
  }
#endif
  return std::nullopt;
}

std::filesystem::path data_folder() {
  return shipped_folder("data", "ONCHIP_DATA", ONCHIP_DATA_DIR).path;
}

const MeasuredRow* find_row(const std::vector<MeasuredRow>& rows, const Recurrent& network, const RecipeWay& way) {
  const MeasuredRow* found = nullptr;
  for (const bool whatever_density : {false, true}) {
    for (const MeasuredRow& row : rows) {
      Recurrent asked = network;
      asked.hidden = way.is_capacity ? row.network.hidden : network.hidden;
      asked.density = way.density.value_or(network.density);
      if (!is_of(row, asked, whatever_density) || !is_way(row, way)) {
        continue;
      }
      const bool is_better = found == nullptr || (way.is_capacity ? row.network.hidden > found->network.hidden
                                                                  : row.step_us < found->step_us);
      found = is_better ? &row : found;
    }
    if (found != nullptr) {
      break;
    }
  }
  return found;
}

}  // namespace onchip
