// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/layout/bank_balance.hpp"

#include "tests/catch.hpp"
#include "tests/model/cases.hpp"

#include <algorithm>
#include <vector>

using namespace onchip;

TEST_CASE("exchanging units for their banks leaves the SMs with about the same number of non-zeros", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::gru);
  const MaskKind mask = GENERATE(MaskKind::uniform, MaskKind::power_law);
  const int gates = info(cell).gates;
  Case c{cell, Precision::fp16, gates == 1 ? 2048 : 1024, 4, 0.1, Storage::packed_pair, RowOrder::bank_aware, 32,
         8,    4 * gates};
  c.rows = mask == MaskKind::power_law ? Rows::power_law : Rows::uniform;
  const SparseMatrix matrix = matrix_of(c);
  const SparseLayout layout = layout_of(c, matrix);
  std::vector<std::int64_t> load(c.sms, 0);
  for (std::size_t i = 0; i < layout.rows.size(); ++i) {
    load[i * c.sms / layout.rows.size()] += layout.rows[i] < 0 ? 0 : length(matrix, layout.rows[i]);
  }
  const auto [least, most] = std::minmax_element(load.begin(), load.end());
  CAPTURE(gates, *least, *most);
  CHECK(static_cast<double>(*most) < 1.1 * static_cast<double>(*least));
}
