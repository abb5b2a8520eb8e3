// SPDX-License-Identifier: Apache-2.0
// A recipe computed: the published value, the model's on the chip it was published on, the model's and the measured one
// on a chip that was measured here, and the verdict.
//
// Of several networks the least value counts, or the most where the recipe says so; of a trend the least ratio of
// neighbours, in the direction that is claimed.
#pragma once

#include "experiments/claims/recipe.hpp"
#include "model/base/kept.hpp"
#include "model/chip/chip.hpp"
#include "model/families/plan.hpp"

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace onchip {

// ---- measured rows: CSV files as `measure` writes them, and the libraries' times of its JSON answers ----------------

struct MeasuredRow {
  Recurrent network;
  RecurrentPlan plan;
  bool is_library = false;
  double step_us = 0;
  std::uint64_t seed = 1;
  std::string fingerprint = {},
              architecture = {};  // of the kernel's source, and what it was compiled for; "": not known
};

std::string describe(const MeasuredRow& row);  // network and plan

// Whether its kernel would be another today, as `validate` says it; nothing where that cannot be told.
std::optional<bool> is_stale(const MeasuredRow& row);

// Files are read once. Rows without a time, with wrong results or of other than uniform masks are left out.
class MeasuredRows {
 public:
  // None of a file of trainings or of inferences. Throws InputError where the file is none of these.
  const std::vector<MeasuredRow>& of(const std::filesystem::path& file);

 private:
  Kept<std::filesystem::path, std::vector<MeasuredRow>> files_;
};

// ---- replications ---------------------------------------------------------------------------------------------------

struct Column {
  std::string chip;            // "": nothing is said
  std::vector<double> values;  // network by network; NaN: does not fit, or was not measured
  double counted = std::numeric_limits<double>::quiet_NaN();  // the value that is compared
};

struct Replication {
  Recipe recipe;
  std::array<Column, kEngines.size()> columns;  // by Engine
  Verdict verdict = Verdict::not_built_yet;
  std::vector<std::string> unexpected;  // why it does not come out as the recipe expects; empty: it does
  int rows = 0;                         // measured rows that were used
  bool knows_stale = false;
  std::vector<std::string> stale;  // of these
  std::string not_measured;        // of rows that are measured anew: why it has none

  const Column& column(Engine engine) const { return columns[static_cast<std::size_t>(engine)]; }
};

// Where measured values come from instead of the recipes' rows; the model's of "here" are then of that chip.
struct Renewed {
  std::string chip;
  std::vector<std::filesystem::path> files;
};

// A change of every chip's numbers, such as a cost term of another value.
using ChangeChip = std::function<void(Chip&)>;

std::vector<Replication> replicate(std::span<const Recipe> recipes, MeasuredRows& measured,
                                   const std::optional<Renewed>& renewed = {}, const ChangeChip& change = {});

// What `--measure` measures anew for a recipe about recurrent networks: the rows that it takes, each once, and where it
// has none the plan that the chip's model chooses, without a time.
std::vector<MeasuredRow> rows_of(const Recipe& recipe, MeasuredRows& measured, const Chip& chip);
// Why one GPU cannot measure a recipe; "": it can.
std::string why_not_measured(const Recipe& recipe);
bool is_feed_forward(const Recipe& recipe);

// Each cost term made 20 % larger and smaller: the claims that then come out otherwise.
struct TermEffect {
  std::string_view term;
  std::vector<std::string> verdicts;  // claims with another verdict
  std::vector<std::string> values;    // claims whose values leave what is expected
};
std::vector<TermEffect> find_term_effects(std::span<const Recipe> recipes, MeasuredRows& measured,
                                          const std::function<void(std::size_t done)>& progress = {});

}  // namespace onchip
