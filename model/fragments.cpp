// SPDX-License-Identifier: Apache-2.0
#include "model/fragments.hpp"

namespace onchip {

std::size_t fragment_index(const Network& network, const Plan& plan, int row, int column) {
  const int units = units_per_sm(network, plan);
  const int gate = row / network.hidden, unit = row % network.hidden;
  const int sm = unit / units;
  const int row_of_sm = unit % units * info(network.cell).gates + gate;
  const int row_tile = row_of_sm / 16, g = row_of_sm % 16 / 2, upper_row = row_of_sm % 2;

  const int span = column / kSpanUnits, in_span = column % kSpanUnits;
  const int c = in_span / 8, half = in_span % 8 / 4, upper_columns = in_span % 4 / 2;
  const int warp = span / warp_spans(network, plan), span_of_warp = span % warp_spans(network, plan);

  const int tile = (span_of_warp * 2 + half) * row_tiles(network, plan) + row_tile;
  const int lane = 4 * g + c;
  const int element = (2 * upper_columns + upper_row) * 2 + in_span % 2;
  const std::size_t warp_tile = (static_cast<std::size_t>(sm) * plan.warps() + warp) * warp_tiles(network, plan) + tile;
  return warp_tile * kTileElements + static_cast<std::size_t>(lane) * 8 + element;
}

}  // namespace onchip
