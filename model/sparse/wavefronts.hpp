// SPDX-License-Identifier: Apache-2.0
// Expected shared-memory wavefronts of the gathers of one SM and step, and the least possible. Closed forms for uniform
// masks: rows of equal expected length, columns at random. Fitted to layouts, not to steps.
#pragma once

#include "model/chip/chip.hpp"
#include "model/sparse/geometry.hpp"

namespace onchip {

struct ExpectedWavefronts {
  double expected = 0, ideal = 0;
};
ExpectedWavefronts expected_wavefronts(const Chip& chip, const SparseGeometry& geometry);

// What the fullest set of banks needs at least of pairs in bank-aware order, however many slots a lane has for them,
// but no fewer than these; rows are not split.
double least_wavefronts(const SparseGeometry& geometry, double least_slots);

}  // namespace onchip
