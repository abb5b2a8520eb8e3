// SPDX-License-Identifier: Apache-2.0
// onchip measure --network: a sparse feed-forward network on this machine's GPU, categories checked against the
// reference, timed from bitmaps in device memory to categories in host memory.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/measurement/measurement.hpp"
#include "kernels/feed_forward/network/fleet.hpp"
#include "model/answer/columns.hpp"
#include "model/answer/feed_forward/feed_forward.hpp"

#include <string>
#include <vector>

namespace onchip {

struct ImagesOnGpus {
  int gpus = 1;
  Split split = Split::dealt;
  bool survivors_first = false;  // images are sorted: those that are alive at the end come first
};

// images: as read_images() takes it; the plan is the one that is chosen for them.
int measure_feed_forward(const ChipFile& chip, const std::string& network, const std::string& images,
                         const ImagesOnGpus& on_gpus, const InferenceConstraints& constraints,
                         const MeasureOptions& options, Output& output);

// The same beside others: the method of 2020, by its plan that is given or chosen, and with --baselines our own plan
// and libraries.
int measure_ways(const ChipFile& chip, const std::string& network, const std::string& images,
                 const InferenceConstraints& given, const MeasureOptions& options, Output& output);

// What the columns of both mean.
std::vector<ColumnGroup> inference_column_groups();

// Compiles what measure_feed_forward() would run, without a GPU, and reports its registers and spills.
int compile_feed_forward(const ChipFile& chip, const std::string& network, const std::string& images,
                         const InferenceConstraints& constraints, Output& output);

// Executes the plan on the CPU, thread by thread, and checks its categories. No times.
int interpret_feed_forward(const ChipFile& chip, const std::string& network, const std::string& images,
                           const InferenceConstraints& constraints, const MeasureOptions& options, Output& output);

}  // namespace onchip
