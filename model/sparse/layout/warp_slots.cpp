// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/layout/warp_slots.hpp"

#include <algorithm>

namespace onchip {

void WarpSlots::put(int slot, int lane, std::int64_t element) {
  const std::size_t at = entry(slot, lane);
  layout_->place[at] = layout_->order[matrix_->column[element]];
  layout_->value[at] = matrix_->value[element];
}

void WarpSlots::put_padding(int slot, int lane, int set) {
  // The zero units cover every bank set; take the one in `set`.
  const int zeros = layout_->geometry.state_units;
  const int units_per_set = std::max(1, kBankBytes / rule_.stride);
  int unit = zeros;
  for (int i = 0; i < rule_.bank_sets * units_per_set; ++i) {
    if (rule_.set_of(zeros + i) == set) {
      unit = zeros + i;
      break;
    }
  }
  layout_->place[entry(slot, lane)] = unit;
}

void WarpSlots::put_deltas(const std::array<std::span<const Placed>, kWarpLanes>& lanes) {
  const std::vector<Placed> taken =
      order_deltas(lanes, count(), rule_, layout_->geometry.order != RowOrder::natural, layout_->geometry.state_units);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const std::size_t entry = static_cast<std::size_t>(layout_->first[warp_row_]) * kWarpLanes + i;
    layout_->place[entry] = taken[i].place;
    layout_->value[entry] = taken[i].element < 0 ? 0.0f : matrix_->value[taken[i].element];
  }
}

}  // namespace onchip
