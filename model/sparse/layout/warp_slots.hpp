// SPDX-License-Identifier: Apache-2.0
// Writing the slots of one warp's rows.
#pragma once

#include "model/banks/bank_rule.hpp"
#include "model/sparse/layout/delta_order.hpp"
#include "model/sparse/layout/layout.hpp"
#include "model/workload/mask.hpp"

#include <array>
#include <cstdint>
#include <span>

namespace onchip {

// The slots of a warp's rows (SparseLayout::warp_row), which a layout has room for; lanes are those of the warp.
class WarpSlots {
 public:
  WarpSlots(SparseLayout& layout, const SparseMatrix& matrix, std::size_t warp_row)
      : layout_(&layout), matrix_(&matrix), rule_(layout.geometry.plane_unit_bytes), warp_row_(warp_row) {}

  int count() const { return layout_->slots(warp_row_); }
  std::size_t entry(int slot, int lane) const { return layout_->entry(warp_row_, slot, lane); }
  void put(int slot, int lane, std::int64_t element);
  // A zero that reads in a set of banks.
  void put_padding(int slot, int lane, int set);
  // All slots of distances, of what each lane has.
  void put_deltas(const std::array<std::span<const Placed>, kWarpLanes>& lanes);

 private:
  SparseLayout* layout_;
  const SparseMatrix* matrix_;
  BankRule rule_;
  std::size_t warp_row_;
};

}  // namespace onchip
