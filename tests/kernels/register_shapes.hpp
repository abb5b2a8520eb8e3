// SPDX-License-Identifier: Apache-2.0
// Plans of the sparse persistent kernel, for what the compiler makes of their registers: those that the planner chooses
// for networks drawn at random.
#pragma once

#include "model/chip.hpp"
#include "model/footprint.hpp"
#include "model/occupancy.hpp"
#include "model/planner.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

inline constexpr std::array<const char*, 4> kArchitectures{"sm_80", "sm_90", "sm_100", "sm_120"};

// For sm_120 there is no chip file: one with the caches of its forerunner.
inline Chip chip_of(std::string_view architecture) {
  Chip chip = find_chip(architecture == "sm_80"    ? "a100"
                        : architecture == "sm_90"  ? "h200"
                        : architecture == "sm_100" ? "b200"
                                                   : "rtx 4090")
                  .chip;
  chip.architecture = architecture;
  return chip;
}

struct Case {
  Network network;
  Plan plan;
  std::string architecture;  // of the chip that it was planned for
};

inline std::string describe(const Case& c) {
  return describe(c.network) + " on " + c.architecture + ": " + to_string(c.plan);
}

// The plan with the largest `words` or fewer words of weights, evenly over its rows; at least one slot each.
inline Case with_words(Case c, int words) {
  c.plan.slots.fill(0);
  std::fill_n(c.plan.slots.begin(), c.plan.rows_per_group, 1);
  for (int row = 0;; row = (row + 1) % c.plan.rows_per_group) {
    ++c.plan.slots[static_cast<std::size_t>(row)];
    if (register_words(c.network, c.plan) > words) {
      --c.plan.slots[static_cast<std::size_t>(row)];
      return c;
    }
  }
}

// Registers per thread that the compiler may use: every architecture here has the same register file.
inline int register_cap(const Case& c) {
  static const Chip chip = find_chip("h200").chip;
  return max_registers_per_thread(chip, c.plan.threads);
}

// How long the compiler takes follows from the number of products: of what it takes seconds for, none is drawn.
inline bool compiles_soon(const Case& c, int most) {
  return planes(c.network, c.plan) * register_cap(c) <= most;
}

class CaseSource {
 public:
  explicit CaseSource(std::uint32_t seed) : random_(seed) {}

  // The planner's choice for the next network, if it fits.
  std::optional<Case> next(std::string_view architecture) {
    constexpr double kMostElements = 6e7, kMostGenerated = 1e6;
    Network network;
    network.cell = static_cast<Cell>(below(4));
    network.precision = static_cast<Precision>(below(4));
    network.batch = below(2) == 0 ? 1 + below(kMaxBatch) : 1 << below(6);
    network.density = std::exp(between(std::log(0.01), 0));
    network.hidden = static_cast<int>(std::exp(between(std::log(64.0), std::log(16000.0))));
    const bool uneven = below(3) == 0 && network.density <= 0.5;
    if (network.density * network.hidden * network.rows() > (uneven ? kMostGenerated : kMostElements)) {
      return std::nullopt;
    }
    const RowProfile rows =
        uneven ? RowProfile::from_matrix(generate_mask(network.rows(), network.hidden, network.density, random_(),
                                                       network.precision, MaskKind::power_law))
               : RowProfile::uniform(network);
    PlanWishes wishes;
    wishes.family = Family::sparse_persistent;
    const PlannedNetwork planned = choose_plan(chip_of(architecture), network, rows, wishes);
    return planned.prediction.footprint.fits
               ? std::optional(Case{planned.network, planned.plan, std::string(architecture)})
               : std::nullopt;
  }
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

 private:
  double between(double low, double high) {
    constexpr double kRange = 4294967296.0;
    return low + (high - low) * (static_cast<double>(random_()) / kRange);
  }

  std::mt19937 random_;
};

// Plans of `count` networks, each architecture's turn after the other.
inline std::vector<Case> planned_cases(std::uint32_t seed, std::size_t count) {
  constexpr int kMostCode = 384;
  CaseSource source(seed);
  std::vector<Case> cases;
  while (cases.size() < count) {
    const std::optional<Case> c = source.next(kArchitectures[cases.size() % kArchitectures.size()]);
    if (c && compiles_soon(*c, kMostCode)) {
      cases.push_back(*c);
    }
  }
  return cases;
}

// The like with more threads, and units for them, where these have fewer registers and so fewer weights, which compile
// sooner: what there is beside the weights is much the same.
inline Case with_more_threads(const Case& c) {
  constexpr int kLeastWeights = 20, kMostUnits = 65000;
  for (const int threads : {608, 512, 352}) {
    Case more = c;
    more.plan.threads = threads;
    more.network.hidden = static_cast<int>(std::int64_t{c.network.hidden} * threads / c.plan.threads);
    if (threads > c.plan.threads && state_units(more.network, more.plan) < kMostUnits &&
        register_cap(more) >= working_registers(more.network, more.plan) + kLeastWeights) {
      return more;
    }
  }
  return c;
}

// As planned_cases(), for a probe.
inline std::vector<Case> probed_cases(std::uint32_t seed, std::size_t count) {
  constexpr int kMostCode = 340, kMostCodeTogether = 260;
  CaseSource source(seed);
  std::vector<Case> cases;
  while (cases.size() < count) {
    const std::optional<Case> planned = source.next(kArchitectures[static_cast<std::size_t>(source.below(4))]);
    if (!planned) {
      continue;
    }
    const bool together = planned->plan.pass_planes > 1;
    const Case c = with_more_threads(*planned);
    if (compiles_soon(c, together ? kMostCodeTogether : kMostCode) &&
        !(together && planes(c.network, c.plan) > 2)) {  // which follow no rule (model/registers.cpp)
      cases.push_back(c);
    }
  }
  return cases;
}

}  // namespace onchip
