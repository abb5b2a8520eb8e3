// SPDX-License-Identifier: Apache-2.0
// What is asked, predicted and measured: a network, where its non-zeros come from, and what is wished of the plan.
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

inline constexpr int kMostSms = 4096;
inline constexpr int kMostLoadsInFlight = 16;
inline constexpr int kMostPromoteEvery = 64;
inline constexpr int kMostFirstLook = 1 << 20;                    // cycles
inline constexpr std::int64_t kMostSeed = std::int64_t{1} << 53;  // exact as a double, for JSON and spreadsheets
// A mask with more non-zeros fits on no chip; its rows are taken at their expected lengths instead of generated.
inline constexpr double kMostGenerated = 1 << 25;

struct Configuration {
  Network network;
  MaskKind mask = MaskKind::uniform;
  std::uint64_t seed = 1;
  std::shared_ptr<const SparseMatrix> weights;  // the user's file; empty: generated from mask and seed
  std::string weights_file, tensor;             // its name as the user gave it
  PlanWishes wishes;
  std::optional<Plan> plan;  // fixed by the user
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

// Throws InputError if the plan's numbers are none that shape_plan could have chosen. What a kernel cannot be built
// from must not come in as text.
void check_plan(const Network& network, const Plan& plan);

// "sparse_persistent"; throws InputError with all names.
Family parse_family(std::string_view name);
Storage parse_storage(std::string_view name);
Tier parse_tier(std::string_view name);

// The fixed plan, or the one that the planner chooses. Throws InputError if a fixed plan cannot hold the rows.
PlannedNetwork plan_network(const Chip& chip, const Configuration& configuration, const RowProfile& rows);

// ---- as rows of a CSV file ------------------------------------------------------------------------------------------

// cell, hidden, batch, steps, density, precision, mask, seed, weights, tensor
std::vector<std::string> configuration_columns();
std::vector<std::string> configuration_cells(const Configuration& configuration);

// Reads these columns, and `plan` or else `family`, `storage` and `tier` if the file has them and the row's are not
// empty. A file may lack `weights` and `tensor`. The weights' file is looked for where the rows are; mask and density
// of its row are the matrix's; or it is not read. Throws InputError with the row.
Configuration read_configuration_row(const CsvReader& file, std::size_t row, bool with_weights = true);

}  // namespace onchip
