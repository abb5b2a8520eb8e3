// SPDX-License-Identifier: Apache-2.0
// What is asked, predicted and measured: a network, where its non-zeros come from, and what is asked for of its plan.
// Matrix, rows and plan of a configuration are made here, so that they are the same wherever it is asked about.
#pragma once

#include "model/families/planner.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace onchip {

inline constexpr int kMostGranule = 4096;
inline constexpr std::int64_t kMostSeed = std::int64_t{1} << 53;  // exact as a double, for JSON and spreadsheets
// A mask with more non-zeros fits on no chip; its rows are taken at their expected lengths instead of generated.
inline constexpr double kMostGenerated = 1 << 25;

// What is asked about where nothing else is said, by command, in C and in Python.
inline constexpr Recurrent kUsualNetwork{.batch = 4, .density = 0.3};

struct Configuration {
  Recurrent network;
  MaskKind mask = MaskKind::uniform;
  std::uint64_t seed = 1;
  std::shared_ptr<const SparseMatrix> weights;  // the user's file; empty: generated from mask and seed
  std::string weights_file, tensor;             // its name as the user gave it
  bool transpose = false;                       // it has [hidden, gates * hidden]
  bool has_expected_rows = false;  // rows of a generated mask at their expected lengths, in a fraction of the time
  Constraints constraints;
  std::optional<RecurrentPlan> plan;  // fixed by the user

  // That the answer is of, "" if it may be any.
  std::string_view family() const {
    return plan ? family_name(*plan) : constraints.family ? std::string_view(*constraints.family) : "";
  }
};

MaskKind parse_mask(std::string_view name);
std::string_view mask_name(const Configuration& configuration);  // "file" for a user's weights

// Takes a matrix as the weights, rounded to the precision; hidden size and density become its. Throws InputError if its
// shape is not that of the cell, or no weight is left; `from` is where it comes from.
void take_matrix(Configuration& configuration, const SparseMatrix& matrix, const std::string& from = "");
// The same of a file, read as `tensor` and `transpose` say.
void take_weights(Configuration& configuration, const std::filesystem::path& file);

std::shared_ptr<const SparseMatrix> recurrent_matrix(const Configuration& configuration);
// What searches over networks of other sizes take for the mask: two_four if this one is, else uniform.
MaskKind expected_mask(const Configuration& configuration);
RowProfile row_profile(const Configuration& configuration);
RowProfile row_profile(const Configuration& configuration, const SparseMatrix& matrix);  // the same, of its matrix

// Throws InputError for a network or a mask that cannot be; a hidden size of 0 asks for the largest that fits.
void check(const Configuration& configuration);

// The plan of a question, in every verb, in C and in Python: the one that the user fixed, or the planner's. Throws
// InputError if a fixed plan cannot be built or cannot hold the rows.
PlannedNetwork plan_network(const Chip& chip, const Configuration& configuration, const RowProfile& rows);

}  // namespace onchip
