// SPDX-License-Identifier: Apache-2.0
// Inference by a streamed plan: from bitmaps to the categories, without the host in between.
#pragma once

#include "kernels/feed_forward/inference_program.hpp"
#include "model/feed_forward/plan/blocks_layout.hpp"
#include "model/feed_forward/plan/streamed_plan.hpp"

#include <string>

namespace onchip {

// words: of a feature, with wide_groups if there are two.
CompileRequest streamed_request(const BlocksGeometry& geometry, const StreamedPlan& plan, int words, bool settles,
                                const std::string& architecture);

// For a GPU of so many SMs, of a layout of streamed_geometry(), which must live until the program is loaded. Throws
// InputError as check_monotone(), for architectures before sm_90, and for a team of more SMs.
InferenceProgram streamed_program(const BlocksLayout& layout, const StreamedPlan& plan, int most_images, int sms,
                                  const std::string& architecture);

}  // namespace onchip
