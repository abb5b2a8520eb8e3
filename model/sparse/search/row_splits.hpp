// SPDX-License-Identifier: Apache-2.0
// How many slots to give the rows of a shape, and into how many splits to cut the longer ones; whether slots are in
// registers or in chunks does not matter here.
#pragma once

#include "model/sparse/geometry.hpp"
#include "model/workload/row_profile.hpp"

#include <array>
#include <vector>

namespace onchip {

struct SplitChoice {
  std::array<int, kMaxRowsPerGroup> slots{};
  int row_splits = 0, split_slots = 0, most_splits = 0;  // as in SparsePlan
};

// The ways to split rows that are worth pricing: by how many rows are left whole, and by how many splits a group takes,
// with the fewest slots of a split for which the groups take all splits as assign_units assigns the units, in whole
// bundles. `plan`: of packed_pair or packed_delta; its slots do not count.
std::vector<SplitChoice> split_choices(const Recurrent& network, SparsePlan plan, const RowProfile& rows);

}  // namespace onchip
