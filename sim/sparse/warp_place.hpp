// SPDX-License-Identifier: Apache-2.0
// A warp of a sparse plan, whose instructions are generated, and what they follow from.
#pragma once

#include "model/banks/bank_rule.hpp"
#include "sim/machine/warp_writer.hpp"
#include "sim/sparse/kernel_tables.hpp"
#include "sim/sparse/state_words.hpp"

#include <array>

namespace onchip {

struct WarpPlace {
  const SparseLayout& layout;
  const SparseGeometry& geometry;
  const StateWords& state;
  const KernelTables& tables;
  int sm, warp;
  std::array<SparseGeometry::GroupLane, kWarpLanes> lanes;

  WarpPlace(const SparseLayout& of, const StateWords& its_state, const KernelTables& its_tables, int its_sm,
            int its_warp)
      : layout(of), geometry(of.geometry), state(its_state), tables(its_tables), sm(its_sm), warp(its_warp) {
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      lanes[lane] = geometry.group_lane_of(thread(lane));
    }
  }
  std::int64_t at(SparseRegion region) const { return geometry.memory.at(region); }  // its first byte
  int values() const { return geometry.tile_rows * geometry.pass_samples; }          // sums of a tile in one pass
  int thread(int lane) const { return kWarpLanes * warp + lane; }
  std::size_t warp_row(int r) const { return layout.warp_row(sm, r, warp); }
};

}  // namespace onchip
