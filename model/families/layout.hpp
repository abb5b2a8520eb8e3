// SPDX-License-Identifier: Apache-2.0
// The packed weights of a plan: which non-zero sits where, computed once on the host, loaded by the kernel, replayed by
// the simulator, read back by the tests. Deterministic in (matrix, network, plan). Each family has its own layout.
#pragma once

#include "model/dense/layout.hpp"
#include "model/families/plan.hpp"
#include "model/sparse/layout/layout.hpp"
#include "model/training/recurrence_layout.hpp"

#include <variant>

namespace onchip {

using Layout = std::variant<SparseLayout, DenseLayout, RecurrenceLayout>;

// Throws InputError if the matrix is not what the network says, does not fit the plan, or the plan is a library's.
// Works on so many threads; the layout does not depend on how many.
Layout make_layout(const Recurrent& network, const RecurrentPlan& plan, const SparseMatrix& matrix, int threads = 1);

// The matrix back.
SparseMatrix unpack(const Layout& layout);
Encoded encode(const Layout& layout);
Wavefronts gather_wavefronts(const Layout& layout);

const Recurrent& network_of(const Layout& layout);
RecurrentPlan plan_of(const Layout& layout);
const StateGeometry& state_of(const Layout& layout);

}  // namespace onchip
