// SPDX-License-Identifier: Apache-2.0
#include "sim/sparse/kernel_tables.hpp"

namespace onchip {

KernelTables::KernelTables(const SparseLayout& layout) : splits(splits_of_rows(layout)) {
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

}  // namespace onchip
