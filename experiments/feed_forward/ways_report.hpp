// SPDX-License-Identifier: Apache-2.0
// onchip measure --network NETWORK --plan "staged ...": the method of 2020; and --baselines: ours and libraries, too.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/measurement/measurement.hpp"
#include "model/feed_forward/staged/plan.hpp"

#include <optional>
#include <string>

namespace onchip {

// images: as read_images() takes it. Without a plan, that with the shortest predicted time.
int measure_ways(const ChipFile& chip, const std::string& network, const std::string& images,
                 const std::optional<StagedPlan>& plan, const MeasureOptions& options, Output& output);

}  // namespace onchip
