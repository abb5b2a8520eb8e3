// SPDX-License-Identifier: Apache-2.0
#include "experiments/claims/recipe.hpp"

#include "model/answer/constraint_words.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/joined.hpp"
#include "model/base/shipped.hpp"
#include "model/base/toml.hpp"
#include "model/base/units.hpp"
#include "model/chip/chip.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/plan/feed_forward_plan.hpp"
#include "model/feed_forward/staged/plan.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <variant>

namespace onchip {
namespace {

// Reads tables by what their keys do; what a reader throws gets the key's place.
class RecipeReader {
 public:
  explicit RecipeReader(std::string file_name) : file_name_(std::move(file_name)) {}

  using Use = std::function<void(const toml::node&)>;
  using Keys = std::map<std::string, Use, std::less<>>;

  void read_table(const toml::node& node, const Keys& keys,
                  const std::function<bool(std::string_view, const toml::node&)>& other = {}) const {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      throw InputError("expected a table");
    }
    for (const auto& [key, value] : *table) {
      at(key.source(), [&, &name = key, &given = value] {
        const auto use = keys.find(name.str());
        if (use != keys.end()) {
          use->second(given);
        } else if (!other || !other(name.str(), given)) {
          std::vector<std::string_view> known;
          for (const auto& [word, ignored] : keys) {
            known.push_back(word);
          }
          throw InputError("unknown key " + in_quotes(name.str()) + did_you_mean(name.str(), known));
        }
      });
    }
  }

  template <typename Read>
  void at(const toml::source_region& place, Read&& read) const {
    at_place(file_name_, place, read);
  }

 private:
  std::string file_name_;
};

std::string text_of(const toml::node& node) {
  const auto text = node.value_exact<std::string>();
  if (!text) {
    throw InputError("expected a text");
  }
  return *text;
}

double number_of(const toml::node& node) {
  if (!node.is_integer() && !node.is_floating_point()) {
    throw InputError("expected a number");
  }
  return *node.value<double>();
}

double share_of(const toml::node& node) {
  const double share = number_of(node);
  if (!(share >= 0 && share < 1)) {
    throw InputError("expected a share from 0 to 1, such as 0.05");
  }
  return share;
}

int whole_of(const toml::node& node) {
  const auto number = node.value_exact<std::int64_t>();
  if (!number || *number < 0 || *number > 1000000) {
    throw InputError("expected a whole number");
  }
  return static_cast<int>(*number);
}

template <typename T, typename Of>
std::vector<T> list_of(const toml::node& node, Of&& of) {
  std::vector<T> list;
  if (const toml::array* array = node.as_array()) {
    for (const toml::node& element : *array) {
      list.push_back(of(element));
    }
  } else {
    list.push_back(of(node));
  }
  return list;
}

template <typename Enum, std::size_t kCount>
Enum word_of(const toml::node& node, const std::array<std::string_view, kCount>& names) {
  const std::string word = text_of(node);
  const auto found = std::ranges::find(names, word);
  if (found == names.end()) {
    throw InputError("found " + in_quotes(word) + ": expected one of " + joined(names));
  }
  return static_cast<Enum>(found - names.begin());
}

// A field of a plan, by the words of its option.
bool read_constraint(Constraints& constraints, std::string_view key, const toml::node& node) {
  if (key == "family") {
    constraints.family = find_family(text_of(node)).name;
  } else if (key == "tier") {
    constraints.tier = parse_tier(text_of(node));
  } else if (std::ranges::find(fixable_fields(), key, &FixableField::name) != fixable_fields().end()) {
    fix_field(constraints, key, node.is_string() ? text_of(node) : format_number(number_of(node)));
  } else {
    return false;
  }
  return true;
}

std::string claimed_plan(std::string_view text) {
  if (text == kChosenPlan) {
    return std::string(text);
  }
  const FeedForwardPlan plan = parse_feed_forward_plan(text);
  const auto* staged = std::get_if<StagedPlan>(&plan);
  if (staged == nullptr) {
    throw InputError("plan: found '" + std::string(family_name(plan)) + "': expected staged or " +
                     std::string(kChosenPlan));
  }
  check(*staged);
  return to_string(plan);
}

RecipeWay read_way(const RecipeReader& reader, std::string_view name, const toml::node& node) {
  RecipeWay way;
  way.name = name;
  constexpr std::array<std::string_view, 2> kAsked{"step", "capacity"};
  reader.read_table(node,
                    {{"ask", [&](const toml::node& n) { way.is_capacity = word_of<int>(n, kAsked) == 1; }},
                     {"density", [&](const toml::node& n) { way.density = number_of(n); }},
                     {"plan", [&](const toml::node& n) { way.plan = claimed_plan(text_of(n)); }},
                     {"chip", [&](const toml::node& n) { way.chip = text_of(n); }},
                     {"term", [&](const toml::node& n) { way.term = text_of(n); }},
                     {"gpus", [&](const toml::node& n) { way.gpus = std::max(1, whole_of(n)); }},
                     {"column", [&](const toml::node& n) { way.column = text_of(n); }},
                     {"there",
                      [&](const toml::node& n) {
                        reader.read_table(n, {}, [&](std::string_view key, const toml::node& value) {
                          return read_constraint(way.there, key, value);
                        });
                      }}},
                    [&](std::string_view key, const toml::node& value) {
                      if (key == "family" && text_of(value) == "library") {
                        return way.is_library = true;
                      }
                      return read_constraint(way.constraints, key, value);
                    });
  if (way.is_library && (way.is_capacity || !way.constraints.fixed.empty() || !way.there.fixed.empty())) {
    throw InputError("a library has no plan and no capacity");
  }
  // What is fixed everywhere is fixed there, too, unless it has another value there.
  Constraints there = way.constraints;
  for (const FixedField& fixed : way.there.fixed) {
    std::erase_if(there.fixed, [&](const FixedField& other) { return other.name == fixed.name; });
    there.fixed.push_back(fixed);
  }
  there.tier = way.there.tier ? way.there.tier : there.tier;
  way.there = std::move(there);
  return way;
}

void read_claimed(const RecipeReader& reader, ClaimedNetwork& network, const toml::node& node) {
  reader.read_table(node, {{"cell", [&](const toml::node& n) { network.cell = parse_cell(text_of(n)); }},
                           {"precision", [&](const toml::node& n) { network.precision = parse_precision(text_of(n)); }},
                           {"hidden", [&](const toml::node& n) { network.hidden = whole_of(n); }},
                           {"batch", [&](const toml::node& n) { network.batch = whole_of(n); }},
                           {"density", [&](const toml::node& n) { network.density = number_of(n); }},
                           {"steps", [&](const toml::node& n) { network.steps = whole_of(n); }},
                           {"layers", [&](const toml::node& n) { network.layers = whole_of(n); }},
                           {"feed_forward", [&](const toml::node& n) {
                              network.feed_forward = text_of(n);
                              read_network(network.feed_forward);
                            }}});
}

void read_expected(const RecipeReader& reader, Recipe& recipe, const toml::node& node) {
  reader.read_table(node, {{"verdict", [&](const toml::node& n) { recipe.expected = word_of<Verdict>(n, kVerdicts); }},
                           {"cause", [&](const toml::node& n) { recipe.cause = text_of(n); }},
                           {"there", [&](const toml::node& n) { recipe.there = list_of<double>(n, number_of); }},
                           {"here", [&](const toml::node& n) { recipe.here = list_of<double>(n, number_of); }},
                           {"within", [&](const toml::node& n) { recipe.within = share_of(n); }}});
}

// What parts of a recipe need of each other. Throws InputError.
void check_whole(const Recipe& recipe) {
  const bool is_computed = !recipe.value.empty();
  const auto require = [](bool holds, const char* what) {
    if (!holds) {
      throw InputError(what);
    }
  };
  require(!recipe.claim.empty() && !recipe.paper.empty() && !recipe.place.empty(),
          "a recipe needs claim, paper and place");
  require(!std::isfinite(recipe.published) || !recipe.mark.empty(), "a published value needs its mark");
  require(is_computed == is_tested(recipe.expected),
          "a claim that is tested needs a value to compute, others have none");
  require(is_computed == (!recipe.networks.empty() && !recipe.ways.empty() && !recipe.tested.empty()),
          "a value needs networks ([[network]]), ways ([way.NAME]) and who is tested");
  for (const ClaimedNetwork& network : recipe.networks) {
    const bool is_feed_forward = !network.feed_forward.empty();
    require(std::ranges::all_of(recipe.ways, [&](const RecipeWay& way) { return way.plan.empty() != is_feed_forward; }),
            "feed-forward networks need ways with a plan, staged or chosen; others have none");
    require(!is_feed_forward || (recipe.tested == std::vector{Engine::there} && !recipe.chip.empty()),
            "a claim about feed-forward networks is decided there, by the model of the chip it was published on");
  }
  const auto columns = std::ranges::count_if(recipe.ways, [](const RecipeWay& way) { return !way.column.empty(); });
  require(columns == 0 || (columns == std::ssize(recipe.ways) && recipe.rows.size() == 1 &&
                           recipe.tested == std::vector{Engine::measured}),
          "a claim by columns has one for each way, one file of rows, and is decided by what was measured");
  require(recipe.expected == Verdict::replicated || !recipe.cause.empty(),
          "what is not replicated needs a cause under [expect]");
}

Recipe read_recipe(const std::filesystem::path& file) {
  const RecipeReader reader(file.string());
  const toml::table root = parse_toml(InputFile(file).bytes(), file.string());
  Recipe recipe;
  recipe.name = file.stem().string();
  recipe.file = file;
  const auto text = [](std::string& into) { return [&into](const toml::node& node) { into = text_of(node); }; };
  const toml::node* networks = nullptr;
  ClaimedNetwork shared;
  constexpr std::array<std::string_view, 2> kOver{"least", "most"};
  constexpr std::array<std::string_view, 3> kMarks{"read", "derived", "recalled"};
  reader.read_table(
      root, {{"claim", text(recipe.claim)},
             {"paper", text(recipe.paper)},
             {"place", text(recipe.place)},
             {"mark", [&](const toml::node& n) { recipe.mark = kMarks[word_of<std::size_t>(n, kMarks)]; }},
             {"unit", text(recipe.unit)},
             {"assumes", text(recipe.assumes)},
             {"plot", text(recipe.plot)},
             {"chip", [&](const toml::node& n) { recipe.chip = find_chip(text_of(n)).chip.name; }},
             {"published", [&](const toml::node& n) { recipe.published = number_of(n); }},
             {"relation", [&](const toml::node& n) { recipe.relation = word_of<Relation>(n, kRelations); }},
             {"tolerance", [&](const toml::node& n) { recipe.tolerance = share_of(n); }},
             {"value", text(recipe.value)},
             {"over", [&](const toml::node& n) { recipe.takes_most = word_of<int>(n, kOver) == 1; }},
             {"rows", [&](const toml::node& n) { recipe.rows = list_of<std::string>(n, text_of); }},
             {"script", text(recipe.script)},
             {"measure", text(recipe.measure)},
             {"tested",
              [&](const toml::node& n) {
                recipe.tested = list_of<Engine>(n, [](const toml::node& e) { return word_of<Engine>(e, kEngines); });
              }},
             {"all", [&](const toml::node& n) { read_claimed(reader, shared, n); }},
             {"network", [&](const toml::node& n) { networks = &n; }},
             {"way",
              [&](const toml::node& n) {
                reader.read_table(n, {}, [&](std::string_view key, const toml::node& value) {
                  recipe.ways.push_back(read_way(reader, key, value));
                  return true;
                });
              }},
             {"expect", [&](const toml::node& n) { read_expected(reader, recipe, n); }}});
  if (networks != nullptr) {
    recipe.networks = list_of<ClaimedNetwork>(*networks, [&](const toml::node& node) {
      ClaimedNetwork network = shared;
      reader.at(node.source(), [&] {
        read_claimed(reader, network, node);
        Recurrent checked = network;
        checked.hidden = std::max(1, network.hidden);  // a capacity has none
        check(checked);
      });
      return network;
    });
  }
  reader.at(root.source(), [&] { check_whole(recipe); });
  return recipe;
}

}  // namespace

std::vector<Recipe> read_recipes(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code problem;
  for (std::filesystem::recursive_directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    if (entry->path().extension() == ".toml") {
      files.push_back(entry->path());
    }
  }
  if (files.empty()) {
    throw InputError(folder.string() + ": no recipes (*.toml) here");
  }
  std::ranges::sort(files);
  std::vector<Recipe> recipes;
  for (const std::filesystem::path& file : files) {
    recipes.push_back(read_recipe(file));
  }
  std::stable_partition(recipes.begin(), recipes.end(), [](const Recipe& recipe) { return !recipe.value.empty(); });
  return recipes;
}

std::filesystem::path shipped_recipes() {
  return shipped_folder("recipes", "ONCHIP_RECIPES", ONCHIP_RECIPES_DIR).path / "claims";
}

}  // namespace onchip
