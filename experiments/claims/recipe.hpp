// SPDX-License-Identifier: Apache-2.0
// A claim of a paper as a TOML file (docs/add-a-recipe.md): what is claimed and where, what is computed to test it, and
// what comes out. Values are the expression `value` over ways to compute a network, such as "library / sparse".
#pragma once

#include "model/plan/constraints.hpp"
#include "model/workload/recurrent.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// The words are ACM's (Artifact Review and Badging 1.1): what is computed by independent code is replicated.
enum class Verdict : std::uint8_t { replicated, differs, not_testable, not_built_yet };
inline constexpr std::array<std::string_view, 4> kVerdicts{"replicated", "differs", "not testable", "not built yet"};
inline std::string_view name(Verdict verdict) {
  return kVerdicts[static_cast<std::size_t>(verdict)];
}
inline bool is_tested(Verdict verdict) {
  return verdict == Verdict::replicated || verdict == Verdict::differs;
}

// How the value has to compare with the published one, or, where a trend is claimed, along the networks.
enum class Relation : std::uint8_t { about, at_least, at_most, rises, falls };
inline constexpr std::array<std::string_view, 5> kRelations{"about", "at least", "at most", "rises", "falls"};

// Who says a value: the model of the chip that the claim was published on, the model of the chip that was measured,
// the measurement.
enum class Engine : std::uint8_t { there, here, measured };
inline constexpr std::array<std::string_view, 3> kEngines{"there", "here", "measured"};

// A recurrent network, or a feed-forward one by its text.
struct ClaimedNetwork : Recurrent {
  std::string feed_forward = {};
  int layers = 1;  // of a training iteration, or of a stream
};

inline constexpr std::string_view kChosenPlan = "chosen";  // the fastest predicted

// A way to compute a network, whose value is its step time in us; of a feed-forward network the ms of an inference.
struct RecipeWay {
  std::string name;
  bool is_library = false;        // the fastest of the libraries
  bool is_capacity = false;       // instead of a time the largest hidden size that fits
  std::optional<double> density;  // instead of the network's
  Constraints constraints;        // of its plan
  Constraints there;              // the same, on the chip that the claim was published on
  // Of a feed-forward network:
  std::string plan;  // staged, or kChosenPlan
  std::string chip;  // instead of the claim's
  std::string term;  // instead of the sum
  int gpus = 1;
  // Of training and streams: the column of the recipe's only file, or of what its script or command prints.
  std::string column;
};

struct Recipe {
  std::string name;  // of the file
  std::filesystem::path file;
  std::string claim;  // in our words
  std::string paper, place;
  std::string mark;  // of the published value: read, derived or recalled
  std::string unit;
  std::string assumes;                                          // what the paper leaves open, and is assumed here
  std::string plot;                                             // script of plots/ that draws it
  std::string chip;                                             // that it was published on; "": not known
  double published = std::numeric_limits<double>::quiet_NaN();  // NaN: no number is public
  Relation relation = Relation::about;
  double tolerance = 0;           // a share: how far a value may be from the relation
  std::string value;              // expression; "": nothing is computed
  bool takes_most = false;        // the largest value over the networks counts, not the least
  std::vector<std::string> rows;  // files of measured rows, below experiments/data
  std::string script;             // of training: prints such rows, below experiments/recipes
  std::string measure;            // or the options of the measure command that prints them
  std::vector<Engine> tested;     // whose values decide
  std::vector<ClaimedNetwork> networks;
  std::vector<RecipeWay> ways;

  Verdict expected = Verdict::replicated;
  std::string cause;                // why it differs, or cannot be tested
  std::vector<double> there, here;  // the model's values, network by network; empty: none are expected
  double within = 0;                // a share: how far from these they may be
};

// Every file *.toml in a folder and its folders, in the order of their names, those that are tested first. Throws
// InputError with file, line and column.
std::vector<Recipe> read_recipes(const std::filesystem::path& folder);

std::filesystem::path shipped_recipes();  // experiments/recipes/claims

}  // namespace onchip
