// SPDX-License-Identifier: Apache-2.0
// onchip measure --network NETWORK --plan "staged ...": the method of 2020; and --baselines: ours and libraries, too.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/measurement/measurement.hpp"
#include "model/answer/feed_forward/feed_forward.hpp"

#include <string>

namespace onchip {

// images: as read_images() takes it. given: of the method of 2020, or of ours; of each that is not given, the best
// plan.
int measure_ways(const ChipFile& chip, const std::string& network, const std::string& images,
                 const InferenceConstraints& given, const MeasureOptions& options, Output& output);

}  // namespace onchip
