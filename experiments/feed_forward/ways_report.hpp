// SPDX-License-Identifier: Apache-2.0
// onchip measure --network NETWORK --plan "staged ...": the method of 2020; and --baselines: ours and libraries, too.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/measurement/measurement.hpp"

#include <string>

namespace onchip {

// images: as read_images() takes it. plan: of the method of 2020, or of ours; of each that is not given, the one with
// the shortest predicted time.
int measure_ways(const ChipFile& chip, const std::string& network, const std::string& images, const std::string& plan,
                 const MeasureOptions& options, Output& output);

}  // namespace onchip
