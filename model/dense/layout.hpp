// SPDX-License-Identifier: Apache-2.0
// Layouts of the dense persistent family: weights in fragments (model/dense/fragments.hpp).
#pragma once

#include "model/plan/layout.hpp"

namespace onchip {

// See make_layout(), unpack() and gather_wavefronts().
Layout dense_layout(const Network& network, const Plan& plan, const SparseMatrix& matrix);
SparseMatrix unpack_dense(const Layout& layout);
Wavefronts dense_wavefronts(const Layout& layout);

}  // namespace onchip
