// SPDX-License-Identifier: Apache-2.0
// Layouts of the sparse persistent family: which rows a group has, and which non-zeros the slots of its lanes.
#pragma once

#include "model/plan/layout.hpp"

namespace onchip {

// See make_layout().
Layout sparse_layout(const Network& network, const Plan& plan, const SparseMatrix& matrix, int threads);

}  // namespace onchip
