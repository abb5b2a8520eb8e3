// SPDX-License-Identifier: Apache-2.0
// A network that runs images by kernels: planned for a chip, packed, compiled, loaded.
#pragma once

#include "kernels/feed_forward/network/batched_inference.hpp"

#include <memory>

namespace onchip {

// The current device: its free memory, its shared memory and SMs as a chip. Throws CudaError where there is none.
InferenceTarget device_target();

// Plans and packs, which takes milliseconds to seconds: on tensor cores where most weights lie in blocks, in shared
// memory or through L2, else as unstructured. Throws DoesNotFit with each family's reason where none has a kernel.
// Images with values other than 1, and features, take unstructured kernels in the reference's order. One program is
// loaded at a time: calls of infer and features in turn load it anew.
std::unique_ptr<NetworkInference> kernel_inference(FeedForward network, InferenceTarget target);

}  // namespace onchip
