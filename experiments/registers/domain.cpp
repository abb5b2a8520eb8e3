// SPDX-License-Identifier: Apache-2.0
// All shapes that the planner picks for a grid of relu and tanh networks near the limit of the registers, packed_pair
// in registers.
#include "experiments/registers/frequent.hpp"
#include "experiments/registers/shape.hpp"
#include "experiments/registers/verbs.hpp"
#include "model/footprint.hpp"
#include "model/parallel.hpp"
#include "model/planner.hpp"

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace onchip::registers {
namespace {

struct Wished {
  Chip chip;
  Network network;
  bool in_registers;  // packed_pair, if it fits or not; else whatever is best
};

// Some more registers than there are: what would be picked if kernels took fewer.
constexpr std::array kShares{1.0, 1.125};
constexpr std::array kDensities{0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5};
constexpr int kSmallest = 256, kOctaves = 6, kPerOctave = 4;

std::vector<Wished> domain_networks() {
  std::vector<Wished> all;
  const auto add = [&](const Chip& chip, Network network) {
    // Words of weights over registers: what is far from filling them, or far beyond, is not picked near the limit.
    constexpr double kFew = 0.08, kMany = 3;
    const double words = (network.precision == Precision::fp32 ? 1.5 : 1.0) * network.density * network.hidden *
                         network.hidden / (chip.registers_per_sm * chip.sm_count);
    for (const bool in_registers : {false, true}) {
      if (words > kFew && words < (in_registers ? 1 : kMany)) {
        all.push_back({chip, network, in_registers});
      }
    }
  };
  for (const char* name : kChips) {
    for (const double share : kShares) {
      Chip chip = find_chip(name).chip;
      chip.registers_per_sm.value *= share;
      chip.registers_per_block.value *= share;
      for (const Cell cell : {Cell::relu, Cell::tanh}) {
        for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
          for (const int batch : kBatches) {
            for (const double density : kDensities) {
              for (int size = 0; size <= kOctaves * kPerOctave; ++size) {
                const double hidden = kSmallest * std::exp2(static_cast<double>(size) / kPerOctave);
                add(chip, {.cell = cell,
                           .precision = precision,
                           .hidden = static_cast<int>(std::lround(hidden / 8)) * 8,
                           .batch = batch,
                           .density = density});
              }
            }
          }
        }
      }
    }
  }
  return all;
}

// Whether all but the registers suffices, and these are nearly filled, or nearly suffice.
bool is_near(const Footprint& footprint) {
  constexpr double kNear = 0.85, kBeyond = 1.25;
  for (std::size_t i = 0; i < footprint.resources.size(); ++i) {
    const double share = footprint.resources[i].share();
    if (i == static_cast<std::size_t>(Resource::registers) ? share < kNear || share > kBeyond : share > 1) {
      return false;
    }
  }
  return footprint.indexed_units <= kMostIndexedUnits;
}

}  // namespace

int print_domain(const std::vector<std::string>& known_limits) {
  FrequentShapes frequent(known_limits);
  const std::vector<Wished> networks = domain_networks();
  std::vector<Shape> picks(networks.size());
  std::vector<char> near(networks.size());
  parallel_for(static_cast<int>(networks.size()), all_cores(), [&](int i) {
    const Wished& wished = networks[static_cast<std::size_t>(i)];
    PlanWishes wishes;
    wishes.family = Family::sparse_persistent;
    if (wished.in_registers) {
      wishes.storage = Storage::packed_pair;
      wishes.tier = Tier::registers;
    }
    const PlannedNetwork planned =
        choose_plan(wished.chip, wished.network, RowProfile::uniform(wished.network), wishes);
    picks[static_cast<std::size_t>(i)] = {planned.network, planned.plan};
    near[static_cast<std::size_t>(i)] = is_near(planned.prediction.footprint);
  });
  for (std::size_t i = 0; i < picks.size(); ++i) {
    if (near[i]) {
      frequent.add(picks[i]);
    }
  }
  frequent.print();
  std::fprintf(stderr, "%zu networks, %zu shapes\n", networks.size(), frequent.size());
  return 0;
}

}  // namespace onchip::registers
