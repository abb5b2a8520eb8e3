// SPDX-License-Identifier: Apache-2.0
#include "experiments/claims/columns.hpp"

#include "experiments/command/table.hpp"

namespace onchip {

double measured_column(const std::filesystem::path& file, const ClaimedNetwork& network, const std::string& column) {
  const CsvReader rows(file);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows.number(row, "hidden") == network.hidden && rows.number(row, "batch") == network.batch &&
        rows.number(row, "steps") == network.steps && rows.number(row, "layers") == network.layers &&
        rows.text(row, "precision") == info(network.precision).name) {
      return rows.number(row, column);
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace onchip
