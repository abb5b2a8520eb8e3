// SPDX-License-Identifier: Apache-2.0
// Which units should share a warp: those whose rows, taken together, need all sets of banks equally often.
//
// The rows that share phases can be read without a conflict in as many phases as the most needed set has elements, or
// as the longest row has slots, whichever is more (phase_colouring.hpp). Units at places of the same set are exchanged,
// so that no other row's needs change, as long as this takes wavefronts away and no warp needs more slots than before.
#pragma once

#include "model/sparse/geometry.hpp"
#include "model/workload/mask.hpp"
#include "model/workload/row_profile.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

// `ranks`: as assign_units gives them, [sms, units_per_sm]; returns them exchanged. Deterministic.
std::vector<std::int32_t> balance_banks(const SparseGeometry& geometry, const RowProfile& rows,
                                        const SparseMatrix& matrix, std::vector<std::int32_t> ranks);

}  // namespace onchip
