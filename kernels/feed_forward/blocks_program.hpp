// SPDX-License-Identifier: Apache-2.0
// Inference by a plan of blocks: from bitmaps to the categories, without the host in between.
#pragma once

#include "kernels/feed_forward/inference_program.hpp"
#include "model/feed_forward/plan/blocks_layout.hpp"

#include <string>

namespace onchip {

// What a tile's kernel is compiled from, and compiles to; the number of output blocks in flight is the largest that
// does not spill. Needs no GPU. Throws InputError for architectures before sm_90.
struct BlocksKernel {
  int ahead = 0;
  CompileRequest request;
  ResourceReport resources;
};
BlocksKernel compile_blocks(const BlocksGeometry& geometry, const BlocksTile& tile, bool settles,
                            const std::string& architecture);

// Throws InputError for networks whose bounds are not monotone.
void check_monotone(const BlocksLayout& layout);

// For a GPU of so many SMs. The layout must live until the program is loaded. Throws InputError as check_monotone().
InferenceProgram blocks_program(const BlocksLayout& layout, const BlocksPlan& plan, int most_images, int sms,
                                const std::string& architecture);

}  // namespace onchip
