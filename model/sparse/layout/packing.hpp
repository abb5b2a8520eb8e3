// SPDX-License-Identifier: Apache-2.0
// Filling the slots of the rows that one warp works on at the same time.
#pragma once

#include "model/sparse/layout/delta_order.hpp"
#include "model/sparse/layout/layout.hpp"
#include "model/workload/mask.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

// Gives a layout whose rows are assigned, and cut, its slots: how many each warp's rows have, and what stands in them.
// Works on so many threads. Throws InputError if a row does not fit.
void pack_rows(SparseLayout& layout, const SparseMatrix& matrix, int threads);

// A row's non-zeros, in the order of the state; nothing in row -1.
std::vector<Placed> placed(const SparseLayout& layout, const SparseMatrix& matrix, std::int32_t row);

}  // namespace onchip
