// SPDX-License-Identifier: Apache-2.0
// How long an inference takes, launch by launch, in terms that sum to it, whatever family its plan is of.
#pragma once

#include "model/plan/prediction.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// A launch: a range of layers, of so many images.
struct LaunchPrice {
  std::string name;  // "layers 1 to 3", "lower bounds"
  double images = 0;
  std::int64_t tiles = 0, rounds = 0;  // of the SM, or team of SMs, with the most
  Terms terms;
};

struct InferencePrice {
  std::vector<LaunchPrice> launches;
  Terms terms;
  double us = 0, low_us = 0, high_us = 0, floor_us = 0;
  std::string_view binding;  // the largest term
};

}  // namespace onchip
