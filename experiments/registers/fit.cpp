// SPDX-License-Identifier: Apache-2.0
// The costs of model/registers.cpp, fitted to what was measured.
#include "experiments/registers/limits.hpp"
#include "experiments/registers/score.hpp"
#include "experiments/registers/verbs.hpp"
#include "model/registers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace onchip::registers {
namespace {

using Cost = double RegisterCosts::*;
struct NamedCost {
  const char* name;
  Cost cost;
};
#define ONCHIP_COST(name)       \
  NamedCost {                   \
#name, &RegisterCosts::name \
  }
constexpr std::array kAllCosts{
    ONCHIP_COST(base),
    ONCHIP_COST(two_tiles),
    ONCHIP_COST(more_tiles),
    ONCHIP_COST(staged_planes),
    ONCHIP_COST(staged_ring),
    ONCHIP_COST(loaded_word),
    ONCHIP_COST(output),
    ONCHIP_COST(ring),
    ONCHIP_COST(lstm),
    ONCHIP_COST(gru),
    ONCHIP_COST(kept_addresses),
    ONCHIP_COST(kept_per_word),
    ONCHIP_COST(several_planes),
    ONCHIP_COST(gated_pass),
    ONCHIP_COST(chunk_word_together),
    ONCHIP_COST(unpacked_together),
    ONCHIP_COST(more_together),
    ONCHIP_COST(wide_together),
    ONCHIP_COST(together_pass),
    ONCHIP_COST(dense_tail),
};
#undef ONCHIP_COST

// What is wrong with the costs: above all too few registers, then more than kClose too many, then any too many; costs
// that need not differ from `usual` should not.
double fault(const RegisterCosts& costs, const std::vector<Measured>& points, const RegisterCosts& usual) {
  constexpr double kTooFew = 50, kNotClose = 5, kFar = 1, kMore = 0.15, kUnusual = 1;
  double sum = 0;
  for (const Measured& m : points) {
    const int working = working_registers(costs, m.shape.network, m.shape.plan);
    sum += kTooFew * std::max(0, m.most - working) + kMore * std::max(0, working - m.least) +
           kFar * std::max(0, working - m.least - kClose) + kNotClose * (working > m.least + kClose);
  }
  for (const NamedCost& c : kAllCosts) {
    sum += kUnusual * std::abs(costs.*c.cost - usual.*c.cost);
  }
  return sum;
}

// Simulated annealing, in quarters of a register.
RegisterCosts anneal(RegisterCosts costs, const std::vector<Measured>& points, const RegisterCosts& usual) {
  constexpr int kMoves = 1000000;
  constexpr double kHot = 30, kCold = 0.1;
  std::mt19937 random(1);
  double now = fault(costs, points, usual), least = now;
  RegisterCosts best = costs;
  for (int move = 0; move < kMoves; ++move) {
    const double temperature = kHot * std::pow(kCold / kHot, static_cast<double>(move) / kMoves);
    RegisterCosts tried = costs;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      const Cost cost = kAllCosts[random() % kAllCosts.size()].cost;
      tried.*cost = std::max(0.0, tried.*cost + (static_cast<int>(random() % 9) - 4) / 4.0);
    }
    const double then = fault(tried, points, usual);
    if (then <= now || std::ldexp(static_cast<double>(random()), -32) < std::exp((now - then) / temperature)) {
      costs = tried;
      now = then;
    }
    if (now < least) {
      least = now;
      best = costs;
    }
  }
  std::fprintf(stderr, "fault %.1f of %zu points\n", least, points.size());
  return best;
}

void print_fit_scores(std::size_t architecture, const RegisterCosts& costs, const std::vector<Measured>& points) {
  const auto working = [&](const Measured& m) { return working_registers(costs, m.shape.network, m.shape.plan); };
  print_score(
      architecture, "other", points, [](const Measured& m) { return !m.held_out; }, working);
  print_score(
      architecture, "held out", points, [](const Measured& m) { return m.held_out; }, working);
}

}  // namespace

// Each architecture's costs, from what is common to all. Those fitted without the held out shapes show what the form is
// worth on shapes that it has not seen; those fitted to all are for use.
int fit(const std::string& path) {
  const std::vector<Measured> all = read_limits({path});
  const RegisterCosts guess{.base = 13,
                            .more_tiles = 3,
                            .staged_planes = 3,
                            .loaded_word = 1,
                            .output = 4,
                            .ring = 8,
                            .lstm = 3,
                            .gru = 3,
                            .kept_addresses = 6,
                            .several_planes = 3,
                            .gated_pass = 5,
                            .chunk_word_together = 1,
                            .unpacked_together = 12,
                            .more_together = 8};
  for (const bool hold_out : {true, false}) {
    std::vector<Measured> fitted = all;
    std::erase_if(fitted, [&](const Measured& m) { return hold_out && m.held_out; });
    const RegisterCosts usual = anneal(guess, fitted, guess);
    std::puts(hold_out ? kScoreHeader : "");
    for (std::size_t a = 0; a < kArchitectures.size(); ++a) {
      std::vector<Measured> points = fitted;
      std::erase_if(points, [&](const Measured& m) { return m.architecture != a; });
      const RegisterCosts costs = anneal(usual, points, usual);
      if (hold_out) {
        print_fit_scores(a, costs, all);
        continue;
      }
      std::printf("// %s\n{", kArchitectures[a]);
      for (const NamedCost& c : kAllCosts) {
        std::printf(".%s = %g, ", c.name, costs.*c.cost);
      }
      std::puts("},");
    }
  }
  return 0;
}

}  // namespace onchip::registers
