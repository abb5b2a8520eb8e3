// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/phase_text.hpp"

#include "model/base/error.hpp"
#include "model/base/number.hpp"
#include "model/plan/require.hpp"

namespace onchip {

void refuse_plan(std::string_view found, const std::string& expected) {
  throw InputError("plan: found " + in_quotes(found) + ": expected " + expected);
}

int read_from_one(std::string_view text, int most, const std::string& what) {
  if (const auto value = number_in<int>(text); value && *value >= 1 && *value <= most) {
    return *value;
  }
  refuse_plan(text, what + " from 1 to " + std::to_string(most));
}

int read_last_layer(std::string_view text, int before) {
  constexpr int kMostLayers = 1 << 24;
  const int end = read_from_one(text, kMostLayers, "a layer");
  if (end <= before) {
    refuse_plan(text, "phases whose last layers ascend");
  }
  return end;
}

std::vector<std::pair<int, std::string_view>> read_phases(std::string_view text) {
  std::vector<std::pair<int, std::string_view>> phases;
  for (const std::string_view phase : split_text(text, ',')) {
    const auto parts = split_text(phase, ':');
    if (parts.size() != 2) {
      refuse_plan(phase, "a last layer and a tile, such as 120:2x1");
    }
    phases.emplace_back(read_last_layer(parts[0], phases.empty() ? 0 : phases.back().first), parts[1]);
  }
  return phases;
}

void check_last_layer(const FeedForward& network, int end_layer) {
  require(end_layer == network.layers(), "phases to layer " + std::to_string(network.layers()) +
                                             ", the network's last, found " + std::to_string(end_layer));
}

}  // namespace onchip
