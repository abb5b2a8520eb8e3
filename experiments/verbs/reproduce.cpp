// SPDX-License-Identifier: Apache-2.0
// onchip reproduce: claims of papers beside what the model says and what was measured.
#include "experiments/claims/renew.hpp"
#include "experiments/command/output.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/command/verbs.hpp"
#include "model/base/error.hpp"
#include "model/base/joined.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace onchip {
namespace {

// ---- claims set side by side with what is computed and measured -----------------------------------------------------

std::string number_text(double value) {
  return std::isnan(value) ? "none" : format_number(rounded(value, value < 1000 ? 3 : 4));
}

bool is_trend(const Recipe& recipe) {
  return recipe.relation == Relation::rises || recipe.relation == Relation::falls;
}

// "at least 6 times (read)", "rises"
std::string published_text(const Recipe& recipe) {
  if (std::isnan(recipe.published)) {
    return recipe.value.empty() ? ""
           : is_trend(recipe)   ? std::string(kRelations[static_cast<std::size_t>(recipe.relation)])
                                : "above 1";
  }
  const std::string relation = recipe.relation == Relation::about || recipe.value.empty()
                                   ? ""
                                   : std::string(kRelations[static_cast<std::size_t>(recipe.relation)]) + ' ';
  return relation + format_number(recipe.published) + ' ' + recipe.unit + " (" + recipe.mark + ')';
}

// Of a trend its first and last value, else what counts.
std::string column_text(const Recipe& recipe, const Column& column) {
  if (column.values.empty()) {
    return "";
  }
  return is_trend(recipe) ? number_text(column.values.front()) + " to " + number_text(column.values.back())
                          : number_text(column.counted);
}

// The engines as people read them.
constexpr std::array<std::string_view, kEngines.size()> kEngineWords{"model there", "model here", "measured"};

std::string tested_text(const Recipe& recipe) {
  return joined(recipe.tested, ", ", "", [](Engine of) { return kEngineWords[static_cast<std::size_t>(of)]; });
}

std::string rows_text(const Replication& replication) {
  if (replication.rows == 0) {
    return "";
  }
  return std::to_string(replication.rows) + " measured rows" +
         (replication.knows_stale ? ", " + std::to_string(replication.stale.size()) + " stale" : "");
}

std::string chip_text(const Column& column) {
  return column.chip.empty() ? "" : " on " + column.chip;
}

const Column& there(const Replication& of) {
  return of.column(Engine::there);
}
const Column& here(const Replication& of) {
  return of.column(Engine::here);
}
const Column& measured(const Replication& of) {
  return of.column(Engine::measured);
}

std::size_t count(std::span<const Replication> replications, Verdict verdict) {
  return static_cast<std::size_t>(std::ranges::count(replications, verdict, &Replication::verdict));
}

std::string summary(std::span<const Replication> replications) {
  const std::size_t replicated = count(replications, Verdict::replicated),
                    differs = count(replications, Verdict::differs);
  const auto unexpected = std::ranges::count_if(
      replications, [](const Replication& replication) { return !replication.unexpected.empty(); });
  return std::to_string(replicated + differs) + " claims are tested: " + std::to_string(replicated) + " replicated, " +
         std::to_string(differs) + " differ. " + std::to_string(count(replications, Verdict::not_testable)) +
         " cannot be tested; " + std::to_string(count(replications, Verdict::not_built_yet)) +
         " wait for what is not built yet, and do not count. " +
         (unexpected == 0 ? "All come out as their recipes expect."
                          : std::to_string(unexpected) + " do not come out as their recipes expect.");
}

Table side_by_side(std::span<const Replication> replications) {
  Table table{{"claim", "published", "model there", "model here", "measured", "decided by", "verdict"}, {}};
  for (const Replication& of : replications) {
    const auto with_chip = [&](const Column& column) {
      return column_text(of.recipe, column) + (column.values.empty() ? "" : chip_text(column));
    };
    table.rows.push_back({of.recipe.name, published_text(of.recipe), with_chip(there(of)), with_chip(here(of)),
                          column_text(of.recipe, measured(of)), tested_text(of.recipe),
                          std::string(name(of.verdict)) + (of.unexpected.empty() ? "" : " (!)")});
  }
  return table;
}

// Where a size is sought there is none.
std::string network_text(const ClaimedNetwork& network) {
  if (!network.feed_forward.empty()) {
    return network.feed_forward;
  }
  std::string text = (network.layers > 1 ? std::to_string(network.layers) + " x " : "") + describe(network);
  if (network.hidden == 0) {
    text.erase(text.find("H=0 "), 4);
  }
  return text;
}

// A claim's networks, line by line.
Table network_table(const Replication& of) {
  Table table{
      {"network", "model" + chip_text(there(of)), "model" + chip_text(here(of)), "measured" + chip_text(measured(of))},
      {}};
  for (std::size_t i = 0; i < of.recipe.networks.size(); ++i) {
    const auto cell = [&](const Column& column) {
      return column.values.empty() ? std::string() : number_text(column.values[i]);
    };
    table.rows.push_back({network_text(of.recipe.networks[i]), cell(there(of)), cell(here(of)), cell(measured(of))});
  }
  return table;
}

std::string details(const Replication& of) {
  const Recipe& recipe = of.recipe;
  std::string text = recipe.name + ": " + recipe.claim + "\n\n";
  const auto line = [&](const std::string& title, const std::string& what) {
    if (!what.empty()) {
      text += title + std::string(11 - title.size(), ' ') + what + '\n';
    }
  };
  line("paper", recipe.paper + "; " + recipe.place);
  line("published", published_text(recipe) + (recipe.chip.empty() ? "" : ", on " + recipe.chip));
  line("assumes", recipe.assumes);
  line("value", recipe.value);
  line("tested",
       tested_text(recipe) + (recipe.tolerance > 0 ? ", within " + format_number(100 * recipe.tolerance) + " %" : ""));
  line("verdict", std::string(name(of.verdict)) + (recipe.cause.empty() ? "" : ": " + recipe.cause));
  line("rows", rows_text(of));
  line("no rows", of.not_measured);
  for (const std::string& stale : of.stale) {
    line("stale", stale);
  }
  line("figure", recipe.plot.empty() ? "" : recipe.plot + " of plots/make");
  for (const std::string& unexpected : of.unexpected) {
    line("unexpected", unexpected);
  }
  return text + (recipe.value.empty() ? "" : '\n' + to_aligned(network_table(of)));
}

std::string cell(double value) {
  return std::isfinite(value) ? significant(value, 6) : "";
}

Table rows(std::span<const Replication> replications) {
  Table table{{"claim",          "verdict", "as_expected", "published", "mark",    "unit",      "relation",
               "published_chip", "cell",    "hidden",      "batch",     "density", "precision", "there",
               "here_chip",      "here",    "measured",    "rows",      "stale",   "plot"},
              {}};
  for (const Replication& of : replications) {
    const Recipe& recipe = of.recipe;
    for (std::size_t i = 0; i < std::max<std::size_t>(1, recipe.networks.size()); ++i) {
      std::vector<std::string> row{
          recipe.name,
          std::string(name(of.verdict)),
          truth(of.unexpected.empty()),
          cell(recipe.published),
          recipe.mark,
          recipe.unit,
          recipe.value.empty() ? "" : std::string(kRelations[static_cast<std::size_t>(recipe.relation)]),
          recipe.chip};
      if (recipe.networks.empty() || !recipe.networks[i].feed_forward.empty()) {
        row.resize(row.size() + 5);
      } else {
        const Recurrent& network = recipe.networks[i];
        row.insert(row.end(), {std::string(info(network.cell).name),
                               network.hidden > 0 ? std::to_string(network.hidden) : "", std::to_string(network.batch),
                               format_number(network.density), std::string(info(network.precision).name)});
      }
      const auto value = [&](const Column& column) { return column.values.empty() ? "" : cell(column.values[i]); };
      row.insert(row.end(),
                 {value(there(of)), here(of).chip, value(here(of)), value(measured(of)), std::to_string(of.rows),
                  of.knows_stale ? std::to_string(of.stale.size()) : "", recipe.plot});
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

Json number_or_null(double value) {
  return std::isfinite(value) ? Json(rounded(value)) : Json();
}

Json to_json(const Recipe& recipe) {
  return {{"name", recipe.name},
          {"claim", recipe.claim},
          {"paper", recipe.paper},
          {"place", recipe.place},
          {"published", number_or_null(recipe.published)},
          {"mark", recipe.mark},
          {"unit", recipe.unit},
          {"relation", kRelations[static_cast<std::size_t>(recipe.relation)]},
          {"tolerance_percent", 100 * recipe.tolerance},
          {"chip", recipe.chip},
          {"value", recipe.value},
          {"assumes", recipe.assumes},
          {"plot", recipe.plot},
          {"expected", name(recipe.expected)},
          {"cause", recipe.cause}};
}

Json to_json(const Replication& of) {
  Json json = to_json(of.recipe);
  json["verdict"] = name(of.verdict);
  json["unexpected"] = of.unexpected;
  json["rows"] = of.rows;
  json["not_measured"] = of.not_measured;
  json["stale"] = of.knows_stale ? Json(of.stale) : Json();
  json["networks"] = Json::array();
  for (const ClaimedNetwork& network : of.recipe.networks) {
    json["networks"].push_back(network_text(network));
  }
  for (std::size_t i = 0; i < kEngines.size(); ++i) {
    Json values = Json::array();
    for (const double value : of.columns[i].values) {
      values.push_back(number_or_null(value));
    }
    json[kEngines[i]] = {
        {"chip", of.columns[i].chip}, {"values", values}, {"counted", number_or_null(of.columns[i].counted)}};
  }
  return json;
}

std::string markdown(const Table& table) {
  std::string text;
  const auto add = [&](const std::vector<std::string>& cells) {
    text += '|';
    for (const std::string& word : cells) {
      text += ' ' + word + " |";
    }
    text += '\n';
  };
  add(table.columns);
  add(std::vector<std::string>(table.columns.size(), "---"));
  for (const auto& row : table.rows) {
    add(row);
  }
  return text;
}

// reproduce list
Report report_recipes(std::span<const Recipe> recipes) {
  Table table{{"claim", "paper", "published", "chip", "expected", "plot"}, {}};
  Json list = Json::array();
  for (const Recipe& recipe : recipes) {
    table.rows.push_back({recipe.name, recipe.paper, published_text(recipe), recipe.chip,
                          std::string(name(recipe.expected)), recipe.plot});
    list.push_back(to_json(recipe));
  }
  return {to_aligned(table), table, {{"recipes", list}}};
}

// One with all its networks, or many.
Report report_replications(std::span<const Replication> replications) {
  std::string text;
  if (replications.size() == 1) {
    text = details(replications.front());
  } else {
    text = to_aligned(side_by_side(replications)) + '\n' + summary(replications) + '\n';
    for (const Replication& of : replications) {
      for (const std::string& unexpected : of.unexpected) {
        text += "(!) " + of.recipe.name + ": " + unexpected + '\n';
      }
    }
  }
  Json claims = Json::array();
  for (const Replication& of : replications) {
    claims.push_back(to_json(of));
  }
  return {text, rows(replications), {{"claims", claims}}};
}

// reproduce all --terms
Report report_term_effects(std::span<const TermEffect> effects) {
  Table table{{"term", "other verdicts", "other values"}, {}};
  std::string none;
  int without = 0;
  Json list = Json::array();
  for (const TermEffect& effect : effects) {
    list.push_back({{"term", effect.term}, {"verdicts", effect.verdicts}, {"values", effect.values}});
    if (effect.verdicts.empty() && effect.values.empty()) {
      none += (none.empty() ? "" : ", ") + std::string(effect.term);
      ++without;
    }
    table.rows.push_back({std::string(effect.term), joined(effect.verdicts, " "), joined(effect.values, " ")});
  }
  Table shown = table;
  std::erase_if(shown.rows, [](const auto& row) { return row[1].empty() && row[2].empty(); });
  std::string text = to_aligned(shown) + "\nNo claim depends on " + std::to_string(without) + " of " +
                     std::to_string(effects.size()) + " terms: " + none + "\n";
  return {text, table, {{"terms", list}}};
}

// docs/replication.md
std::string replication_page(std::span<const Replication> replications) {
  std::string text =
      "# Replication\n\n"
      "What papers claim, beside what the model says and what was measured. `build/onchip reproduce all --page` prints "
      "this\n"
      "page from the recipes in `experiments/recipes/claims/` and the rows in `experiments/data/`; no GPU is needed.\n"
      "[add-a-recipe](add-a-recipe.md) says how to add a claim.\n\n"
      "- The words are ACM's (Artifact Review and Badging 1.1): what independent code confirms is *replicated*.\n"
      "- *Published* has its mark: read in the source, derived from what was read, or recalled from memory.\n"
      "- *Model there* is of the chip that the claim was published on. Chip files of that age hold estimates, and "
      "the\n"
      "  intervals of step times there are wide (`build/onchip predict --chip p100`).\n"
      "- *Model here* and *measured* are of a chip that was measured. A kernel's time there is of the plan that ran.\n"
      "- *Decided by* says which of these values the verdict goes by.\n"
      "- A value that stands for several networks is the least of them, or the most where a claim says \"up to\"; of a "
      "trend\n"
      "  the first and the last.\n\n" +
      summary(replications) + "\n\n";
  std::vector<Replication> tested(replications.begin(), replications.end()), rest;
  std::ranges::copy_if(replications, std::back_inserter(rest),
                       [](const Replication& of) { return !is_tested(of.verdict); });
  std::erase_if(tested, [](const Replication& of) { return !is_tested(of.verdict); });
  text += markdown(side_by_side(tested));
  std::string paper;
  std::vector<std::string> drawn;
  for (const Replication& of : tested) {
    const Recipe& recipe = of.recipe;
    if (recipe.paper != paper) {
      paper = recipe.paper;
      text += "\n## " + paper + '\n';
    }
    text += "\n### " + recipe.name + "\n\n" + recipe.claim + ".\n\n- Where: " + recipe.place + '\n' +
            (recipe.assumes.empty() ? "" : "- Assumed: " + recipe.assumes + '\n') + "- Value: `" + recipe.value +
            "`, published: " + published_text(recipe) + "; decided by: " + tested_text(recipe) +
            (recipe.tolerance > 0 ? ", within " + format_number(100 * recipe.tolerance) + " %" : "") + "\n- **" +
            std::string(name(of.verdict)) + "**" + (recipe.cause.empty() ? "" : ": " + recipe.cause) + "\n\n" +
            markdown(network_table(of));
    if (!recipe.plot.empty() && std::ranges::find(drawn, recipe.plot) == drawn.end()) {
      drawn.push_back(recipe.plot);
      text += "\n![" + recipe.plot + "](images/" + recipe.plot + ".png)\n";
    }
  }
  Table without{{"claim", "reason"}, {}};
  for (const Replication& of : tested) {
    if (!of.not_measured.empty()) {
      without.rows.push_back({of.recipe.name, of.not_measured});
    }
  }
  text += without.rows.empty() ? "" : "\n## Not measured\n\n" + markdown(without);
  Table open{{"claim", "paper", "published", "verdict", "reason"}, {}};
  for (const Replication& of : rest) {
    open.rows.push_back(
        {of.recipe.claim, of.recipe.paper, published_text(of.recipe), std::string(name(of.verdict)), of.recipe.cause});
  }
  return text + "\n## Not tested\n\n" + markdown(open);
}

// ---- the verb -------------------------------------------------------------------------------------------------------

// What follows the verb: all recipes, or those that are named.
std::vector<Recipe> chosen(std::vector<Recipe> recipes, const std::vector<std::string>& names) {
  if (names == std::vector<std::string>{"all"} || names == std::vector<std::string>{"list"}) {
    return recipes;
  }
  std::vector<Recipe> of;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(recipes, name, &Recipe::name);
    if (found == recipes.end()) {
      std::vector<std::string_view> known{"all", "list"};
      std::ranges::transform(recipes, std::back_inserter(known), &Recipe::name);
      throw InputError("no recipe " + in_quotes(name) + did_you_mean(name, known) +
                       "; 'onchip reproduce list' has all");
    }
    of.push_back(*found);
  }
  return of;
}

std::vector<OptionGroup> reproduce_options() {
  return {
      option_group(
          "Replication",
          {{"claim", "NAME...",
            "Reproduce these claims; 'list' lists them, 'all' takes all. The option's name may be left out."},
           {"recipes", "FOLDER", "Take the recipes of this folder (default: the shipped ones)."},
           {"measure", "FOLDER",
            "Measure the rows that the claims take on this machine's GPU, claim by claim, write them into the folder, "
            "and "
            "answer by them. What the folder has is not measured again."},
           {"rows", "FILE...",
            "Answer by these measured rows instead of the recipes', such as those that --measure wrote; repeatable."},
           {"chip", "NAME", "The chip of --rows, or of --measure another than this GPU's.", "h200"},
           {"terms", "",
            "Say instead which claims come out otherwise when a cost term of the model ('onchip chips --cost-terms') "
            "is 20 "
            "% larger or smaller."},
           {"page", "", "Print the page docs/replication.md."}}),
      output_options()};
}

int run_reproduce(const Options& options) {
  const std::vector<std::string> names = options.list("claim");
  if (names.empty()) {
    throw InputError("expected 'list', 'all' or the name of a claim");
  }
  options.refuse({"format"}, "contradicts --page: that is Markdown", options.flag("page"));
  options.refuse({"rows"}, "contradicts --measure: both say where measured values come from", options.given("measure"));
  const std::vector<Recipe> recipes = chosen(
      read_recipes(options.given("recipes") ? std::filesystem::path(options.text("recipes")) : shipped_recipes()),
      names);
  Output output(options);
  if (names.front() == "list") {
    output.write(report_recipes(recipes));
    return 0;
  }
  MeasuredRows measured;
  Progress progress;
  if (options.flag("terms")) {
    output.write(report_term_effects(find_term_effects(recipes, measured, [&](std::size_t done) {
      progress.show(std::to_string(done) + " of " + std::to_string(2 * kCostTerms.size()) + " changes");
    })));
    return 0;
  }
  std::optional<Renewed> renewed;
  if (options.given("measure")) {
    renewed =
        measure_anew(recipes, measured, options.text("measure"), options.given("chip") ? options.text("chip") : "");
  } else if (options.given("rows")) {
    const std::vector<std::string> files = options.list("rows");
    renewed = Renewed{options.text("chip"), {files.begin(), files.end()}};
  }
  const std::vector<Replication> replications = replicate(recipes, measured, renewed);
  if (options.flag("page")) {
    output.append(replication_page(replications));
    output.finish();
  } else {
    output.write(report_replications(replications));
  }
  return std::ranges::all_of(replications, [](const Replication& of) { return of.unexpected.empty(); }) ? 0 : 1;
}

}  // namespace

const Verb kReproduceVerb{"reproduce",
                          "Set claims of papers beside what the model says and what was measured, with a verdict.",
                          "onchip reproduce all",
                          reproduce_options,
                          run_reproduce,
                          "claim"};

}  // namespace onchip
