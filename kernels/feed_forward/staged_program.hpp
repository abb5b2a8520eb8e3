// SPDX-License-Identifier: Apache-2.0
// Inference by a staged plan, layer by layer (feed_forward_staged.cu).
#pragma once

#include "kernels/feed_forward/inference_program.hpp"
#include "model/feed_forward/staged/layout.hpp"

#include <string>

namespace onchip {

CompileRequest staged_request(const StagedPlan& plan, const std::string& architecture);

// For a GPU of so many SMs. Nothing of the layout is needed afterwards.
InferenceProgram staged_program(const StagedLayout& layout, int most_images, int sms, const std::string& architecture);

}  // namespace onchip
