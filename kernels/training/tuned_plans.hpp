// SPDX-License-Identifier: Apache-2.0
// Plans of training that were timed, and found to be the fastest, on disk beside compiled kernels (cubin_cache.hpp).
// The key is the GPU, its driver, the kernels' source and compiler, and the shape of a layer: all but its steps, with
// the samples that its kernel has room for (kernel_batch()). Processes share them; a damaged one is as if it were not
// there.
#pragma once

#include "kernels/runtime/device.hpp"
#include "model/training/training_plan.hpp"

#include <optional>

namespace onchip {

// Of the kernels, or cuDNN's; nothing for a layer that was not tuned, or has lengths.
std::optional<TrainingPlan> tuned_plan(const DeviceInfo& device, const TrainingSize& size, Precision precision,
                                       Stash stash);
void remember_plan(const DeviceInfo& device, const TrainingSize& size, Precision precision, Stash stash,
                   const TrainingPlan& plan);

}  // namespace onchip
