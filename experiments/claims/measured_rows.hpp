// SPDX-License-Identifier: Apache-2.0
// Measured rows by configuration: CSV files as `measure` writes them, and the libraries' times of its JSON answers.
#pragma once

#include "experiments/claims/recipe.hpp"
#include "model/families/plan.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace onchip {

struct MeasuredRow {
  Recurrent network;
  RecurrentPlan plan;
  bool is_library = false;
  double step_us = 0;
  std::uint64_t seed = 1;
  std::string fingerprint, architecture;  // of the kernel's source, and what it was compiled for; "": not known
};

std::string describe(const MeasuredRow& row);  // network and plan

// Whether its kernel would be another today, as `validate` says it; nothing where that cannot be told.
std::optional<bool> is_stale(const MeasuredRow& row);

// Files are read once. Rows without a time, with wrong results or of other than uniform masks are left out.
class MeasuredRows {
 public:
  // Throws InputError where the file is none of these.
  const std::vector<MeasuredRow>& of(const std::filesystem::path& file);

 private:
  std::map<std::filesystem::path, std::vector<MeasuredRow>> files_;
};

std::filesystem::path data_folder();  // $ONCHIP_DATA, or experiments/data

// The fastest row that computes the network in this way, or, of a capacity, the largest one; null if there is none. Of
// a dense library, if there is none of the network's density, that of another.
const MeasuredRow* find_row(const std::vector<MeasuredRow>& rows, const Recurrent& network, const RecipeWay& way);

}  // namespace onchip
