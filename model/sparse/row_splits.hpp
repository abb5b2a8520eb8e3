// SPDX-License-Identifier: Apache-2.0
// How many slots to give the rows of a shape, and how many pieces to cut the longer ones into; whether slots are in
// registers or in chunks does not matter here.
#pragma once

#include "model/plan/plan.hpp"
#include "model/workload/row_profile.hpp"

#include <array>
#include <vector>

namespace onchip {

struct Cut {
  std::array<int, kMaxRowsPerGroup> slots{};
  int pieces = 0, piece_slots = 0, most_pieces = 0;  // as in Plan
};

// Cuts that are worth pricing: by how many rows are left whole, and into how many pieces, with the fewest slots of a
// piece for which the groups take all pieces as deal_units deals the units, in whole bundles. `plan`: of packed_pair or
// packed_delta; its slots do not count.
std::vector<Cut> cut_rows(const Network& network, Plan plan, const RowProfile& rows);

}  // namespace onchip
