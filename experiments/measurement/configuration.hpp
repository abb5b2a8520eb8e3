// SPDX-License-Identifier: Apache-2.0
// What is asked, predicted and measured: a network, where its non-zeros come from, and what is asked for of its plan.
// Every verb makes matrix, rows and plan of a configuration here, so that they are the same everywhere.
#pragma once

#include "experiments/command/table.hpp"
#include "model/plan/planner.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

inline constexpr std::int64_t kMostSeed = std::int64_t{1} << 53;  // exact as a double, for JSON and spreadsheets
// A mask with more non-zeros fits on no chip; its rows are taken at their expected lengths instead of generated.
inline constexpr double kMostGenerated = 1 << 25;

struct Configuration {
  Recurrent network;
  MaskKind mask = MaskKind::uniform;
  std::uint64_t seed = 1;
  std::shared_ptr<const SparseMatrix> weights;  // the user's file; empty: generated from mask and seed
  std::string weights_file, tensor;             // its name as the user gave it
  Constraints constraints;
  std::optional<Plan> plan;  // fixed by the user

  // That the answer is of, "" if it may be any.
  std::string_view family() const {
    return plan ? family_name(*plan) : constraints.family ? std::string_view(*constraints.family) : "";
  }
};

MaskKind parse_mask(std::string_view name);
std::string_view mask_name(const Configuration& configuration);  // "file" for a user's weights

// Reads the weights; hidden size and density become those of the matrix. Throws InputError if its shape is not that of
// the cell.
void take_weights(Configuration& configuration, const std::filesystem::path& file, std::string_view tensor);

std::shared_ptr<const SparseMatrix> recurrent_matrix(const Configuration& configuration);
// What searches over networks of other sizes take for the mask: two_four if this one is, else uniform.
MaskKind expected_mask(const Configuration& configuration);
RowProfile row_profile(const Configuration& configuration);
RowProfile row_profile(const Configuration& configuration, const SparseMatrix& matrix);  // the same, of its matrix

// ---- its plan -------------------------------------------------------------------------------------------------------

struct ChosenPlan : PlannedNetwork {
  std::optional<Plan> refused = {};  // the model's choice, if the compiler spills it and another plan is taken instead
};

// The plan of a question, in every verb: the one that the user fixed, or the planner's. Throws InputError if a fixed
// plan cannot be built or cannot hold the rows.
//
// With an `architecture` ("sm_90") the compiler for it has the last word: if it spills the model's choice, the fastest
// plan is taken that it does not spill; if it spills all of them, or a fixed plan, that plan does not fit, and its
// footprint has the registers that it lacks. Throws CudaError if the kernel does not compile, InputError in builds
// without CUDA.
ChosenPlan plan_network(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                        const std::string& architecture = "");

// The plans of all families, or of the one that the configuration asks for, the fastest first. With an architecture,
// plans that leave so many more registers to the compiler that it spills none.
std::vector<RankedPlan> rank_plans(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                                   const std::string& architecture = "");

// ---- as rows of a CSV file ------------------------------------------------------------------------------------------

// cell, hidden, batch, steps, density, precision, mask, seed, weights, tensor
std::vector<std::string> configuration_columns();
std::vector<std::string> configuration_cells(const Configuration& configuration);

// Reads these columns, and `plan` or else `family`, `storage` and `tier` if the file has them and the row's are not
// empty. A file may lack `weights` and `tensor`. The weights' file is looked for where the rows are; mask and density
// of its row are the matrix's; or it is not read. Throws InputError with the row.
Configuration read_configuration_row(const CsvReader& file, std::size_t row, bool with_weights = true);

}  // namespace onchip
