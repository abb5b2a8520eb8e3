// SPDX-License-Identifier: Apache-2.0
// What the instructions of a sparse plan's warps are generated from: its state, the kernel's tables, a warp.
#pragma once

#include "model/banks/bank_rule.hpp"
#include "model/sparse/geometry.hpp"
#include "model/sparse/layout/layout.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace onchip {

// The state of a sparse plan as kernels move it, in 16-byte words: where each is in L2, in shared memory and in the
// outbox of the SM that computes it.
//
//   L2              [planes][state units][samples of a plane]
//   shared memory   the same, but behind every plane its zero units
//   outbox          [planes][units of the SM][samples of a plane]
struct StateWords {
  static constexpr int kBytes = 16;

  explicit StateWords(const SparseGeometry& geometry)
      : plane(std::int64_t{geometry.state_units} * geometry.plane_unit_bytes / kBytes),
        all(geometry.planes * plane),
        outbox_plane(geometry.units_per_sm * geometry.plane_unit_bytes / kBytes),
        outbox(geometry.planes * outbox_plane),
        zero_bytes(std::int64_t{geometry.zero_units} * geometry.plane_unit_bytes),
        plane_bytes(kBytes * plane + zero_bytes),
        units_per_sm(geometry.units_per_sm),
        plane_samples(geometry.plane_samples) {}

  std::int64_t plane, all;   // words of a plane, of the state
  int outbox_plane, outbox;  // of them, those of one SM
  std::int64_t zero_bytes;   // behind a plane in shared memory
  std::int64_t plane_bytes;  // in shared memory, with them
  int units_per_sm, plane_samples;

  // The byte of shared memory where a word of the state goes.
  std::int64_t staged_at(std::int64_t word) const { return kBytes * word + word / plane * zero_bytes; }
  // The element of the outbox that holds a unit of the SM and a sample.
  std::int64_t outbox_index(int unit, int sample) const {
    return (std::int64_t{sample / plane_samples} * units_per_sm + unit) * plane_samples + sample % plane_samples;
  }
  // The byte of the state where a word of an SM's outbox belongs.
  std::int64_t outbox_offset(int sm, int word) const {
    const std::int64_t of_plane = word / outbox_plane, in_plane = word % outbox_plane;
    return kBytes * (of_plane * plane + std::int64_t{sm} * outbox_plane + in_plane);
  }
};

// What stands in the tables that kernels/sparse/sparse_persistent.cu reads in shared memory: how many chunks a row has,
// which splits, which gate a row of a unit is.
struct KernelTables {
  explicit KernelTables(const SparseLayout& layout) : splits(splits_of_rows(layout)) {
    const SparseGeometry& geometry = layout.geometry;
    if (geometry.has_overflow()) {
      overflow = split_overflow(layout);
      for (int sm = 0; sm < geometry.sms; ++sm) {
        std::int64_t at = geometry.memory.at(SparseRegion::chunks);
        for (int warp = 0; warp < geometry.warps(); ++warp) {
          first_chunk.push_back(at);
          for (int r = 0; r < geometry.all_rows(); ++r) {
            at += std::int64_t{geometry.chunk_bytes} * overflow[layout.warp_row(sm, r, warp)].shared;
          }
        }
      }
    }
    gates.resize(static_cast<std::size_t>(geometry.state_units * geometry.gates));
    const std::vector<std::int32_t> places = row_places(layout);
    for (std::size_t row = 0; row < places.size(); ++row) {
      gates[places[row]] = static_cast<std::uint8_t>(row / static_cast<std::size_t>(geometry.network.hidden));
    }
  }

  std::vector<OverflowChunks> overflow;   // see split_overflow(); empty without overflow
  std::vector<std::int64_t> first_chunk;  // [sms * warps]: where the warp's chunks begin in shared memory
  std::vector<std::int32_t> splits;       // see splits_of_rows()
  std::vector<std::uint8_t> gates;        // [state units, gates]: the gate of the unit's row of that place
};

// A warp, and what its instructions follow from.
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
