// SPDX-License-Identifier: Apache-2.0
// The rows of layers as the kernel reads them that computes in fp32, in the order of the reference:
// BlocksLayout::Exact.
#pragma once

#include "model/feed_forward/plan/blocks_layout.hpp"

namespace onchip {

// Of one layer, but for `layer_slice`. Its slices begin at 0, which is left out.
BlocksLayout::Exact exact_rows(const SparseLayer& layer);

// Puts a layer behind others. `all` begins with slice_begin and layer_slice of {0}.
void append(BlocksLayout::Exact& all, const BlocksLayout::Exact& layer);

}  // namespace onchip
