// SPDX-License-Identifier: Apache-2.0
// How long an inference takes, launch by launch, in terms that sum to it, whatever family its plan is of.
#pragma once

#include "model/exchange/exchange_time.hpp"
#include "model/plan/prediction.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// A launch: a range of layers, of so many images.
struct LaunchPrice {
  std::string name;  // "layers 1 to 3", "lower bounds"
  double images = 0;
  std::int64_t tiles = 0, rounds = 0;  // of the SM, or batch group, with the most
  Terms terms;
};

struct InferencePrice {
  std::vector<LaunchPrice> launches;
  Terms terms;
  double us = 0;                   // their sum
  double low_us = 0, high_us = 0;  // the 95 % interval
  double floor_us = 0;             // below every inference, by proof; 0 where there is none

  std::string_view binding() const { return terms.largest(); }
};

// ---- for those who price --------------------------------------------------------------------------------------------

namespace price_parts {

enum Part : std::uint8_t { kProducts, kShared, kL2, kLatency, kBarriers, kImages, kSurvivors, kLaunches, kParts };
inline constexpr std::array<std::string_view, kParts> kPartNames{"products", "shared_memory", "l2",        "latency",
                                                                 "barriers", "images",        "survivors", "launches"};
static_assert(kParts <= Terms::kMost);

struct Parts : std::array<double, kParts> {};  // cycles, or us

inline Parts operator+(Parts a, const Parts& b) {
  for (std::size_t i = 0; i < kParts; ++i) {
    a[i] += b[i];
  }
  return a;
}
inline Parts operator*(Parts a, double factor) {
  for (double& part : a) {
    part *= factor;
  }
  return a;
}

inline Terms terms_of(const Parts& us) {
  Terms terms;
  for (std::size_t i = 0; i < kParts; ++i) {
    terms.add(kPartNames[i], us[i]);
  }
  return terms;
}

// Of a block of so many warps.
inline double barrier_cycles(const Chip& chip, int warps) {
  return block_barrier_cycles(chip, 32 * warps);
}

// Of a line that all SMs read at about the same time.
inline double shared_line_cycles(const Chip& chip) {
  return chip.l2_latency_cycles + chip.sm_count * chip.l2_line_cycles;
}

inline double node_us(const Chip& chip) {
  return 1e6 * chip.library_node_seconds;
}

// Of the host, which lists so many images that are alive behind the last layer.
inline double listed_us(const Chip& chip, double images) {
  return 1e-3 * chip.cost[Cost::listed_image] * images;
}

// Of SMs while tensor cores multiply.
inline double tensor_cycle_us(const Chip& chip) {
  return 1e6 / (chip.clock_hz * chip.tensor_clock_share);
}

}  // namespace price_parts

}  // namespace onchip
