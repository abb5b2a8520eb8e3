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

// Reads these columns, and `plan` or else `family`, `storage` and `tier` if the file has them and the row's are not
// empty. A file may lack `weights`, `tensor` and `transpose`. The weights' file is looked for where the rows are; mask
// and density of its row are the matrix's; or it is not read. Throws InputError with the row.
Configuration read_configuration_row(const CsvReader& file, std::size_t row, bool with_weights = true);

}  // namespace onchip
