// SPDX-License-Identifier: Apache-2.0
// A network that runs images by kernels: planned for a chip, packed, compiled, loaded.
#pragma once

#include "kernels/feed_forward/network/batched_inference.hpp"
#include "model/answer/feed_forward/asked.hpp"

#include <memory>

namespace onchip {

// The current device: its free memory, and what is known of it as a chip (kernels/runtime/device_chip.hpp). Throws
// CudaError where there is none.
InferenceTarget device_target();

// Plans and packs, which takes milliseconds to seconds: the plan that `predict` chooses for these images, unless no
// kernel is. Any others run by it, and come out as right. Throws DoesNotFit as plan_inference() does
// (inference_plan.hpp). Images with values other than 1, and features, take unstructured kernels in the reference's
// order. One program is loaded at a time: alternating calls of infer and features load it anew.
std::unique_ptr<NetworkInference> kernel_inference(FeedForward network, InferenceTarget target,
                                                   const ImagesAsked& images = {});

}  // namespace onchip
