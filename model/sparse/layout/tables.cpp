// SPDX-License-Identifier: Apache-2.0
// Where a layout's rows and their splits are, as the kernel looks them up.
#include "model/sparse/layout/layout.hpp"

namespace onchip {

std::vector<std::int32_t> splits_of_rows(const SparseLayout& layout) {
  const SparseGeometry& geometry = layout.geometry;
  if (geometry.row_splits == 0) {
    return {};
  }
  const std::vector<std::int32_t> places = row_places(layout);
  std::vector<std::int32_t> table(static_cast<std::size_t>(geometry.state_units) *
                                  info(layout.geometry.network.cell).gates);
  for (int sm = 0; sm < geometry.sms; ++sm) {
    for (int split = 0; split < geometry.row_splits * geometry.groups(); ++split) {
      const std::int32_t row =
          layout.row(sm, geometry.rows_per_group + split / geometry.groups(), split % geometry.groups());
      if (row >= 0) {
        std::int32_t& entry = table[places[row]];
        entry = entry == 0 ? 1 << 16 | split : entry + (1 << 16);
      }
    }
  }
  return table;
}

std::vector<std::int32_t> row_places(const SparseLayout& layout) {
  const int gates = info(layout.geometry.network.cell).gates;
  std::vector<std::int32_t> places(layout.geometry.network.rows());
  for (int sm = 0; sm < layout.geometry.sms; ++sm) {
    for (int r = 0; r < layout.geometry.rows_per_group; ++r) {
      for (int group = 0; group < layout.geometry.groups(); ++group) {
        if (const std::int32_t row = layout.row(sm, r, group); row >= 0) {
          places[row] = layout.order[row % layout.geometry.network.hidden] * gates + r % gates;
        }
      }
    }
  }
  return places;
}

}  // namespace onchip
