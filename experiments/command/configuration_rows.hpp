// SPDX-License-Identifier: Apache-2.0
// Configurations (model/answer/configuration.hpp) as rows of CSV.
#pragma once

#include "model/answer/configuration.hpp"
#include "model/base/table.hpp"

#include <string>
#include <vector>

namespace onchip {

// cell, hidden, batch, steps, density, precision, mask, seed, weights, tensor, transpose
std::vector<std::string> configuration_columns();
std::vector<std::string> configuration_cells(const Configuration& configuration);

// A whole number from 0 on. Throws InputError with the row.
double read_whole(const CsvReader& file, std::size_t row, const char* column, double maximum = 2147483647);

// Reads these columns, and `plan` or else `family`, `storage` and `tier` if the file has them and the row's are not
// empty. A file may lack `weights`, `tensor` and `transpose`. The weights' file is looked for where the rows are; mask
// and density of its row are the matrix's; or it is not read. `otherwise`: of the row's empty cells of steps, density,
// mask and seed, which then the file may lack, too; its plan is not read, which is one of training. Throws InputError
// with the row.
Configuration read_configuration_row(const CsvReader& file, std::size_t row, bool with_weights = true,
                                     const Configuration* otherwise = nullptr);

}  // namespace onchip
