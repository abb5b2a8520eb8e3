// SPDX-License-Identifier: Apache-2.0
// onchip measure --network: a sparse feed-forward network on this machine's GPU, categories checked against the
// reference, timed from bitmaps in device memory to categories in host memory.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/measurement/measurement.hpp"
#include "kernels/feed_forward/network/fleet.hpp"

#include <string>

namespace onchip {

struct ImagesOnGpus {
  int gpus = 1;
  Split split = Split::dealt;
  bool survivors_first = false;  // images are sorted: those that are alive at the end come first
};

// images: as read_images() takes it. family: of the plan, or empty for the first that has a kernel (plan_network).
int measure_feed_forward(const ChipFile& chip, const std::string& network, const std::string& images,
                         const ImagesOnGpus& on_gpus, const std::string& family, const MeasureOptions& options,
                         Output& output);

}  // namespace onchip
