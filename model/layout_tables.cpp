// SPDX-License-Identifier: Apache-2.0
// Where a layout's rows, their pieces and the parts of joined ones are, as the kernel looks them up.
#include "model/bank_rule.hpp"
#include "model/joined_block.hpp"
#include "model/layout.hpp"

#include <algorithm>

namespace onchip {

// Whether rows of one of the warp's units, the tile-th of its groups, have pieces.
bool awaits_pieces(const Layout& layout, int sm, int tile, int warp) {
  const Plan& plan = layout.plan;
  const int gates = info(layout.network.cell).gates, groups = kWarpLanes / plan.lanes_per_row;
  for (int r = tile * gates; plan.pieces > 0 && r < (tile + 1) * gates; ++r) {
    for (int group = warp * groups; group < (warp + 1) * groups; ++group) {
      if (layout.cut_rows[layout.group_row(sm, r, group)]) {
        return true;
      }
    }
  }
  return false;
}

namespace {

// The parts of an SM's joined rows; `lanes`: what its lanes have, in their order.
BlockParts parts_of_sm(const Layout& layout, int sm, std::vector<LaneRows>& lanes) {
  const Plan& plan = layout.plan;
  lanes.clear();
  for (int i = 0; i < plan.threads; ++i) {
    lanes.push_back(layout.joined[layout.lane_rows(sm, 0, joined_thread(layout.network, plan, 0, i))]);
  }
  return number_parts(lanes, plan.groups() * info(layout.network.cell).gates);
}

std::vector<std::int32_t> lanes_of_blocks(const Layout& layout) {
  const Plan& plan = layout.plan;
  std::vector<std::int32_t> table(layout.joined.size());
  std::vector<LaneRows> lanes;
  for (int sm = 0; sm < plan.sms; ++sm) {
    const BlockParts parts = parts_of_sm(layout, sm, lanes);
    const bool any_waits = std::ranges::any_of(parts.waits, [](bool waits) { return waits; });
    for (int i = 0; i < plan.threads; ++i) {
      table[layout.lane_rows(sm, 0, joined_thread(layout.network, plan, 0, i))] = encode_block_lane(
          lanes[i], plan.strip_slots, parts.of_first[i], parts.of_second[i], parts.waits[i / kWarpLanes], any_waits);
    }
  }
  return table;
}

}  // namespace

std::vector<std::int32_t> parts_of_rows(const Layout& layout) {
  const Plan& plan = layout.plan;
  if (plan.joins_block == 0) {
    return {};
  }
  const std::size_t of_sm =
      static_cast<std::size_t>(units_per_sm(layout.network, plan)) * info(layout.network.cell).gates;
  std::vector<std::int32_t> table;
  std::vector<LaneRows> lanes;
  for (int sm = 0; sm < plan.sms; ++sm) {
    const BlockParts parts = parts_of_sm(layout, sm, lanes);
    for (std::size_t row = 0; row < of_sm; ++row) {  // some of no group, which fill up words of the state
      table.push_back(row < parts.begin.size() ? parts.begin[row] | parts.count[row] << 16 : 0);
    }
  }
  return table;
}

std::vector<std::int32_t> lanes_of_rows(const Layout& layout) {
  const Plan& plan = layout.plan;
  if (plan.joins_block > 0) {
    return lanes_of_blocks(layout);
  }
  std::vector<std::int32_t> lanes;
  for (std::size_t i = 0; i < layout.joined.size(); ++i) {
    const std::size_t of_tile = i / plan.threads, tiles = plan.rows_per_group / info(layout.network.cell).gates;
    const int warp = static_cast<int>(i % plan.threads) / kWarpLanes;
    const int sm = static_cast<int>(of_tile / tiles), tile = static_cast<int>(of_tile % tiles);
    lanes.push_back(encode_lane(layout.joined[i], plan.strip_slots, awaits_pieces(layout, sm, tile, warp)));
  }
  return lanes;
}

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
