// SPDX-License-Identifier: Apache-2.0
#include "experiments/claims/replicate.hpp"

#include "experiments/command/configuration_rows.hpp"
#include "experiments/measurement/manifest.hpp"
#include "model/answer/capacity.hpp"
#include "model/answer/feed_forward/asked.hpp"
#include "model/answer/json.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/is_there.hpp"
#include "model/base/parallel.hpp"
#include "model/base/shipped.hpp"
#include "model/base/table.hpp"
#include "model/base/units.hpp"
#include "model/explore/expression.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "kernels/recurrent/program.hpp"
#endif

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <variant>

namespace onchip {
namespace {

// ---- measured rows --------------------------------------------------------------------------------------------------

std::vector<MeasuredRow> read_measured(const std::filesystem::path& path) {
  const CsvReader file(path);
  const auto beside = manifest_path(path);
  const std::string architecture = is_there(beside) ? read_manifest(beside).architecture : "";
  std::vector<MeasuredRow> rows;
  if (file.has("wall_ms") || file.has("layers")) {
    return rows;
  }
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
  try {
    const Json answer = parse_json(InputFile(path).bytes(), path.string());
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

// $ONCHIP_DATA, or experiments/data.
std::filesystem::path data_folder() {
  return shipped_folder("data", "ONCHIP_DATA", ONCHIP_DATA_DIR).path;
}

using RowsOfFile = const std::vector<MeasuredRow>*;

// The fastest row that computes the network in this way, or, of a capacity, the largest one; null if there is none. Of
// a dense library, if there is none of the network's density, that of another.
const MeasuredRow* find_row(std::span<const RowsOfFile> files, const Recurrent& network, const RecipeWay& way) {
  const MeasuredRow* found = nullptr;
  for (const bool whatever_density : {false, true}) {
    for (const RowsOfFile rows : files) {
      for (const MeasuredRow& row : *rows) {
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
    }
    if (found != nullptr) {
      break;
    }
  }
  return found;
}

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
constexpr int kGranule = 32;

bool has_columns(const Recipe& recipe) {
  return !recipe.ways.empty() && !recipe.ways.front().column.empty();
}

// ---- training and streams: from a column of a measured file ---------------------------------------------------------

// Of the network's row, which has its hidden, batch, layers and precision, and steps where rows have them. NaN where
// the file has none. Throws InputError where it has no such column.
double measured_column(const CsvReader& rows, const ClaimedNetwork& network, const std::string& column) {
  const auto precision = [&](std::size_t row) {  // torch's words, or ours
    const std::string& word = rows.text(row, rows.has("precision") ? "precision" : "dtype");
    return word == "float16" ? "fp16" : word == "bfloat16" ? "bf16" : word;
  };
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows.number(row, "hidden") == network.hidden && rows.number(row, "batch") == network.batch &&
        (!rows.has("steps") || rows.number(row, "steps") == network.steps) &&
        rows.number(row, "layers") == network.layers && precision(row) == info(network.precision).name &&
        (!rows.has("cell") || rows.text(row, "cell") == info(network.cell).name)) {
      return rows.number(row, column);
    }
  }
  return kNoValue;
}

bool has_column(const std::filesystem::path& file, const std::string& column) {
  return file.extension() == ".csv" && CsvReader(file).has(column);
}

// ---- feed-forward networks: 60,000 synthetic digits -----------------------------------------------------------------

constexpr int kImages = 60000;

// No chip changes these: found once.
Kept<std::string, FeedForward> networks;
Kept<std::string, Activity> activities;
Kept<std::pair<std::string, std::string>, std::vector<StagedCounts>> staged_counts;
Kept<std::string, ExaminedNetwork> examined;

// The challenge's networks of one width begin alike, however many layers they have (radix_net.hpp): the text of the one
// with the layers that are computed.
std::string with_first_layers(const std::string& text, const FeedForward& network) {
  constexpr int kComputed = 120;
  const std::string of_width = "spdnn:" + std::to_string(network.neurons.front()) + "x";
  const bool is_longer = text == of_width + std::to_string(network.layers()) && network.layers() > kComputed;
  return is_longer ? of_width + std::to_string(kComputed) : text;
}

// What is alive after the layers that are computed stays so, as in all of the challenge's networks.
Activity activity_of_first(const std::string& text, const FeedForward& network) {
  const std::string first = with_first_layers(text, network);
  Activity activity = activities.of(
      first, [&] { return activity_of(read_network(first), {.images = "digits:" + std::to_string(kImages)}); });
  activity.alive.resize(network.neurons.size(), activity.alive.back());
  return activity;
}

// Of the Sparse DNN Graph Challenge, from the price of a staged plan or of the chosen one: ms of an inference, or of
// one of its terms, on this chip unless the way has its own; NaN where the plan does not fit.
double claimed_ms(const Chip& published_on, const std::string& text, const RecipeWay& way) {
  const Chip& chip = way.chip.empty() ? published_on : find_chip(way.chip).chip;
  const FeedForward& network = networks.of(text, [&] { return read_network(text); });
  const auto ms_of = [&](const InferencePrice& price) {
    return 1e-3 * (way.term.empty() ? price.us : price.terms[way.term]);
  };
  if (way.plan == kChosenPlan) {
    const ExaminedNetwork& of = examined.of(text, [&] { return examine(network); });
    const Found<PlannedInference> best = best_plan(chip, of, activity_of_first(text, network), way.gpus);
    return best ? ms_of(best->price) : kNoValue;
  }
  const StagedPlan plan = std::get<StagedPlan>(parse_feed_forward_plan(way.plan));
  const Activity activity = activity_of_first(text, network);
  const std::vector<StagedCounts>& of_plan =
      staged_counts.of({text, way.plan}, [&] { return sampled_counts(network, std::span(&plan, 1)).front(); });
  try {
    return ms_of(staged_inference(chip, plan, of_plan, largest_share(activity, way.gpus)));
  } catch (const InputError&) {
    return kNoValue;
  }
}

// The ms of an inference by the way's plan, as `measure --network` writes it; NaN where no file has it.
double measured_ms(std::span<const std::filesystem::path> files, const std::string& network, const RecipeWay& way) {
  for (const std::filesystem::path& file : files) {
    if (!has_column(file, "way")) {
      continue;
    }
    const CsvReader rows(file);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows.text(row, "network") == network && rows.text(row, "way") == way.plan &&
          rows.text(row, "correct") == "true") {
        return rows.number(row, "wall_ms");
      }
    }
  }
  return kNoValue;
}

// Weights times images, in 10^12, as the challenge counts.
double tera_edges(const std::string& text) {
  const FeedForward& network = networks.of(text, [&] { return read_network(text); });
  return 1e-12 * kImages * static_cast<double>(network.layer(0).weights.nnz()) * network.layers();
}

// ---- values and verdicts --------------------------------------------------------------------------------------------

// What the recipe computes for each network, from the values of its ways.
std::vector<double> evaluate(const Recipe& recipe,
                             const std::function<double(const ClaimedNetwork&, const RecipeWay&)>& value_of) {
  std::map<std::string, double, std::less<>> values;
  if (is_feed_forward(recipe)) {
    values["tera_edges"] = kNoValue;
  }
  for (const RecipeWay& way : recipe.ways) {
    values[way.name] = kNoValue;
  }
  Expression expression(recipe.file.string() + ": value", recipe.value, [&](std::string_view name) -> Number_of {
    if (const auto way = values.find(name); way != values.end()) {
      return [value = &way->second](const Answered&) { return *value; };
    }
    return find_number(name);
  });
  std::vector<double> results;
  for (const ClaimedNetwork& network : recipe.networks) {
    for (const RecipeWay& way : recipe.ways) {
      values[way.name] = value_of(network, way);
    }
    if (!network.feed_forward.empty()) {
      values["tera_edges"] = tera_edges(network.feed_forward);
    }
    results.push_back(expression(Answered{.of = SweptStep{.network = &network}}));
  }
  return results;
}

// What the model takes for a way; nothing where nothing fits.
std::optional<PlannedNetwork> planned_way(const Chip& chip, Recurrent network, const RecipeWay& way,
                                          const Constraints& constraints) {
  network.density = way.density.value_or(network.density);
  if (way.is_capacity) {
    return find_capacity(chip, network, kGranule, constraints).largest;
  }
  PlannedNetwork planned = way.is_library ? fastest_library(chip, network)
                                          : choose_plan(chip, network, RowProfile::uniform(network), constraints);
  return planned.prediction.footprint.fits ? std::optional(std::move(planned)) : std::nullopt;
}

double model_value(const Chip& chip, const Recurrent& network, const RecipeWay& way, const Constraints& constraints) {
  const std::optional<PlannedNetwork> planned = planned_way(chip, network, way, constraints);
  return !planned ? kNoValue : way.is_capacity ? planned->network.hidden : planned->prediction.step_us;
}

double counted(const Recipe& recipe, const std::vector<double>& values) {
  if (std::ranges::any_of(values, [](double value) { return std::isnan(value); })) {
    return kNoValue;
  }
  if (recipe.relation == Relation::rises || recipe.relation == Relation::falls) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 1; i < values.size(); ++i) {
      const double ratio = values[i] / values[i - 1];
      least = std::min(least, recipe.relation == Relation::rises ? ratio : 1 / ratio);
    }
    return least;
  }
  return recipe.takes_most ? std::ranges::max(values) : std::ranges::min(values);
}

bool holds(const Recipe& recipe, double value) {
  const double than = std::isnan(recipe.published) ? 1 : recipe.published;  // a gain is above 1
  switch (recipe.relation) {
    case Relation::about:
      return std::abs(value / than - 1) <= recipe.tolerance;
    case Relation::at_least:
      return value >= than * (1 - recipe.tolerance);
    case Relation::at_most:
      return value <= than * (1 + recipe.tolerance);
    default:
      return value >= 1 - recipe.tolerance;
  }
}

void compare(Replication& replication, Engine engine, const std::vector<double>& expected) {
  const Recipe& recipe = replication.recipe;
  const std::vector<double>& values = replication.column(engine).values;
  for (std::size_t i = 0; i < expected.size() && !values.empty(); ++i) {
    const double value = i < values.size() ? values[i] : kNoValue;
    if (!(std::abs(value / expected[i] - 1) <= recipe.within)) {
      replication.unexpected.push_back("the model's value on the " + replication.column(engine).chip + " is " +
                                       (std::isnan(value) ? "none" : significant(value, 4)) + ", " +
                                       significant(expected[i], 4) + " within " + format_number(100 * recipe.within) +
                                       " % was expected (network " + std::to_string(i + 1) + ")");
    }
  }
}

Replication verdict_of(Replication replication) {
  const Recipe& recipe = replication.recipe;
  replication.verdict = Verdict::replicated;
  for (const Engine engine : recipe.tested) {
    const Column& column = replication.column(engine);
    if (std::isnan(column.counted)) {
      replication.verdict = Verdict::not_testable;
      replication.unexpected.push_back("no value " + std::string(kEngines[static_cast<std::size_t>(engine)]) +
                                       (column.values.empty() ? "" : " of every network"));
      break;
    }
    if (!holds(recipe, column.counted)) {
      replication.verdict = Verdict::differs;
    }
  }
  if (replication.verdict != recipe.expected) {
    replication.unexpected.push_back("the verdict is '" + std::string(name(replication.verdict)) + "', '" +
                                     std::string(name(recipe.expected)) + "' was expected");
  }
  compare(replication, Engine::there, recipe.there);
  compare(replication, Engine::here, recipe.here);
  return replication;
}

struct Sources {
  std::string chip;  // that was measured
  bool is_renewed = false;
  std::vector<std::filesystem::path> files;
  std::vector<RowsOfFile> rows;  // of recurrent networks, file by file

  // Those of a recipe come first to last; the first one that has a row of a network and way says it. Those measured
  // anew are of all claims, each row in the file of the first claim that asked for it.
  const MeasuredRow* find(const Recurrent& network, const RecipeWay& way) const {
    if (is_renewed) {
      return find_row(rows, network, way);
    }
    for (const RowsOfFile& of : rows) {
      if (const MeasuredRow* row = find_row({&of, 1}, network, way)) {
        return row;
      }
    }
    return nullptr;
  }
};

Sources sources(const Recipe& recipe, MeasuredRows& measured, const std::optional<Renewed>& renewed) {
  Sources sources;
  sources.is_renewed = renewed && (!has_columns(recipe) || std::ranges::any_of(renewed->files, [&](const auto& file) {
                         return has_column(file, recipe.ways.front().column);
                       }));
  if (sources.is_renewed) {
    sources.chip = renewed->chip;
    sources.files = renewed->files;
  } else {
    std::ranges::transform(recipe.rows, std::back_inserter(sources.files),
                           [](const std::string& file) { return data_folder() / file; });
    sources.chip = sources.files.empty() ? "" : sources.files.front().parent_path().filename().string();
  }
  for (const std::filesystem::path& file : sources.files) {
    if (!has_columns(recipe)) {
      sources.rows.push_back(&measured.of(file));
    }
  }
  return sources;
}

Replication replicate_one(const Recipe& recipe, const Sources& sources, const ChangeChip& change) {
  Replication replication;
  replication.recipe = recipe;
  replication.verdict = recipe.expected;
  if (recipe.value.empty()) {
    return replication;
  }
  const auto chip_of = [&](const std::string& name) {
    Chip chip = find_chip(name).chip;
    if (change) {
      change(chip);
    }
    return chip;
  };
  const auto fill = [&](Engine engine, const std::string& chip, auto&& value_of) {
    Column& column = replication.columns[static_cast<std::size_t>(engine)];
    column.chip = chip;
    column.values = evaluate(recipe, value_of);
    column.counted = counted(recipe, column.values);
  };
  if (has_columns(recipe)) {
    const auto file = std::ranges::find_if(
        sources.files, [&](const auto& one) { return has_column(one, recipe.ways.front().column); });
    const CsvReader rows(file == sources.files.end() ? sources.files.front() : *file);
    fill(Engine::measured, chip_of(sources.chip).name, [&](const ClaimedNetwork& network, const RecipeWay& way) {
      return measured_column(rows, network, way.column);
    });
    replication.rows = static_cast<int>(recipe.networks.size());
    return verdict_of(std::move(replication));
  }
  if (!recipe.chip.empty()) {
    const Chip chip = chip_of(recipe.chip);
    fill(Engine::there, chip.name, [&](const ClaimedNetwork& network, const RecipeWay& way) {
      return network.feed_forward.empty() ? model_value(chip, network, way, way.there)
                                          : claimed_ms(chip, network.feed_forward, way);
    });
  }
  if (is_feed_forward(recipe)) {
    if (!sources.files.empty()) {
      fill(Engine::measured, chip_of(sources.chip).name, [&](const ClaimedNetwork& network, const RecipeWay& way) {
        return measured_ms(sources.files, network.feed_forward, way);
      });
    }
    return verdict_of(std::move(replication));
  }
  const Chip chip = chip_of(sources.chip.empty() ? "h200" : sources.chip);
  fill(Engine::here, chip.name, [&](const ClaimedNetwork& network, const RecipeWay& way) {
    const MeasuredRow* row = way.is_library || way.is_capacity ? nullptr : sources.find(network, way);
    return row != nullptr ? predict(chip, network, row->plan).step_us
                          : model_value(chip, network, way, way.constraints);
  });
  std::vector<const MeasuredRow*> used;
  if (!sources.rows.empty()) {
    fill(Engine::measured, chip.name, [&](const ClaimedNetwork& network, const RecipeWay& way) {
      const MeasuredRow* row = sources.find(network, way);
      if (row == nullptr) {
        return kNoValue;
      }
      if (std::ranges::find(used, row) == used.end()) {
        used.push_back(row);
      }
      return way.is_capacity ? row->network.hidden : row->step_us;
    });
  }
  replication.rows = static_cast<int>(used.size());
  for (const MeasuredRow* row : used) {
    const std::optional<bool> stale = change ? std::nullopt : is_stale(*row);
    replication.knows_stale |= stale.has_value();
    if (stale.value_or(false)) {
      replication.stale.push_back(describe(*row));
    }
  }

  return verdict_of(std::move(replication));
}
}  // namespace

const std::vector<MeasuredRow>& MeasuredRows::of(const std::filesystem::path& file) {
  return files_.of(file, [&] { return file.extension() == ".json" ? read_baselines(file) : read_measured(file); });
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

std::vector<Replication> replicate(std::span<const Recipe> recipes, MeasuredRows& measured,
                                   const std::optional<Renewed>& renewed, const ChangeChip& change) {
  std::vector<Sources> of;
  for (const Recipe& recipe : recipes) {
    of.push_back(sources(recipe, measured, renewed));
  }
  std::vector<Replication> replications(recipes.size());
  parallel_for(static_cast<int>(recipes.size()), change ? 1 : all_cores(), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    Replication& one = replications[at] = replicate_one(recipes[at], of[at], change);
    if (renewed && (!of[at].is_renewed || std::isnan(one.column(Engine::measured).counted))) {
      const std::string why = why_not_measured(recipes[at]);
      one.not_measured = why.empty() ? "some of its rows have no measured time" : why;
    }
  });
  return replications;
}

std::vector<MeasuredRow> rows_of(const Recipe& recipe, MeasuredRows& measured, const Chip& chip) {
  std::vector<MeasuredRow> rows;
  std::set<const MeasuredRow*> known;
  const Sources of = sources(recipe, measured, {});
  for (const Recurrent& network : recipe.networks) {
    for (const RecipeWay& way : recipe.ways) {
      if (const MeasuredRow* row = of.find(network, way)) {
        if (known.insert(row).second) {
          rows.push_back(*row);
        }
      } else if (const auto planned = planned_way(chip, network, way, way.constraints)) {
        rows.push_back({planned->network, planned->plan, !is_on_chip(planned->plan)});
      }
    }
  }
  return rows;
}

std::string why_not_measured(const Recipe& recipe) {
  if (recipe.value.empty()) {
    return recipe.cause;
  }
  for (const RecipeWay& way : recipe.ways) {
    if (way.plan == kChosenPlan) {
      return "it is a projection by the plan that the model chooses";
    }
    if (!way.chip.empty()) {
      return "it compares with a chip that is not here, " + way.chip;
    }
    if (way.gpus > 1) {
      return "it takes " + std::to_string(way.gpus) + " GPUs";
    }
    if (!way.term.empty()) {
      return "no measurement says what '" + way.term + "' alone takes";
    }
    if (!way.column.empty() && recipe.script.empty() && recipe.measure.empty()) {
      return "nothing measures its rows";
    }
  }
  return "";
}

bool is_feed_forward(const Recipe& recipe) {
  return !recipe.networks.empty() && !recipe.networks.front().feed_forward.empty();
}

std::vector<TermEffect> find_term_effects(std::span<const Recipe> all, MeasuredRows& measured,
                                          const std::function<void(std::size_t done)>& progress) {
  constexpr std::array kFactors{0.8, 1.2};
  std::vector<Recipe> recipes;  // what fits does not depend on cost terms, nor do staged plans
  std::ranges::copy_if(all, std::back_inserter(recipes), [](const Recipe& recipe) {
    return !std::ranges::all_of(recipe.ways, &RecipeWay::is_capacity) && !is_feed_forward(recipe) &&
           !has_columns(recipe);
  });
  const std::vector<Replication> base = replicate(recipes, measured);
  std::vector<std::vector<Replication>> changed(kCostTerms.size() * kFactors.size());
  std::mutex mutex;
  std::size_t done = 0;
  parallel_for(static_cast<int>(changed.size()), all_cores(), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    const CostTerm& term = kCostTerms[at / kFactors.size()];
    std::vector<Replication> with = replicate(recipes, measured, {}, [&](Chip& chip) {
      chip.cost.set(term.cost, term.value * kFactors[at % kFactors.size()]);
    });
    const std::scoped_lock lock(mutex);
    changed[at] = std::move(with);
    if (progress) {
      progress(++done);
    }
  });
  std::vector<TermEffect> effects;
  for (std::size_t term = 0; term < kCostTerms.size(); ++term) {
    TermEffect& effect = effects.emplace_back(TermEffect{kCostTerms[term].name, {}, {}});
    for (std::size_t i = 0; i < recipes.size(); ++i) {
      bool turns = false, leaves = false;
      for (std::size_t factor = 0; factor < kFactors.size(); ++factor) {
        const Replication& with = changed[term * kFactors.size() + factor][i];
        turns |= with.verdict != base[i].verdict;
        leaves |= with.unexpected.size() > base[i].unexpected.size();
      }
      if (turns) {
        effect.verdicts.push_back(recipes[i].name);
      } else if (leaves) {
        effect.values.push_back(recipes[i].name);
      }
    }
  }
  return effects;
}

}  // namespace onchip
