// SPDX-License-Identifier: Apache-2.0
// Where a layout's rows and their pieces are, as the kernel looks them up.
#include "model/plan/layout.hpp"

namespace onchip {

std::vector<std::int32_t> pieces_of_rows(const Layout& layout) {
  const Plan& plan = layout.plan;
  if (plan.pieces == 0) {
    return {};
  }
  const std::vector<std::int32_t> places = row_places(layout);
  std::vector<std::int32_t> table(static_cast<std::size_t>(state_units(layout.network, plan)) *
                                  info(layout.network.cell).gates);
  for (int sm = 0; sm < plan.sms; ++sm) {
    for (int piece = 0; piece < plan.pieces * plan.groups(); ++piece) {
      const std::int32_t row = layout.row(sm, plan.rows_per_group + piece / plan.groups(), piece % plan.groups());
      if (row >= 0) {
        std::int32_t& entry = table[places[row]];
        entry = entry == 0 ? 1 << 16 | piece : entry + (1 << 16);
      }
    }
  }
  return table;
}

std::vector<std::int32_t> row_places(const Layout& layout) {
  const int gates = info(layout.network.cell).gates;
  std::vector<std::int32_t> places(layout.network.rows());
  if (layout.plan.family == Family::dense_persistent) {
    for (int row = 0; row < layout.network.rows(); ++row) {
      places[row] = layout.order[row % layout.network.hidden] * gates + row / layout.network.hidden;
    }
    return places;
  }
  for (int sm = 0; sm < layout.plan.sms; ++sm) {
    for (int r = 0; r < layout.plan.rows_per_group; ++r) {
      for (int group = 0; group < layout.plan.groups(); ++group) {
        if (const std::int32_t row = layout.row(sm, r, group); row >= 0) {
          places[row] = layout.order[row % layout.network.hidden] * gates + r % gates;
        }
      }
    }
  }
  return places;
}

}  // namespace onchip
