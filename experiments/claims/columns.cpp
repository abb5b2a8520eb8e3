// SPDX-License-Identifier: Apache-2.0
#include "experiments/claims/columns.hpp"

#include "model/base/table.hpp"

namespace onchip {

double measured_column(const std::filesystem::path& file, const ClaimedNetwork& network, const std::string& column) {
  const CsvReader rows(file);
  const auto precision = [&](std::size_t row) {  // torch's words, or ours
    const std::string& word = rows.text(row, rows.has("precision") ? "precision" : "dtype");
    return word == "float16" ? "fp16" : word == "bfloat16" ? "bf16" : word;
  };
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows.number(row, "hidden") == network.hidden && rows.number(row, "batch") == network.batch &&
        rows.number(row, "steps") == network.steps && rows.number(row, "layers") == network.layers &&
        precision(row) == info(network.precision).name &&
        (!rows.has("cell") || rows.text(row, "cell") == info(network.cell).name)) {
      return rows.number(row, column);
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace onchip
