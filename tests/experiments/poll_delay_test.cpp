// SPDX-License-Identifier: Apache-2.0
// The delay that plans are given before their first poll, against steps measured with other delays (record.sh of
// experiments/recipes). In-sample: the delays were chosen by these steps.
#include "experiments/command/configuration_rows.hpp"
#include "model/base/table.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <variant>

using namespace onchip;

namespace {

// Between measured delays, a straight line; beyond the longest, its step.
double step_at(const std::map<int, double>& step_us, int poll_delay) {
  const auto later = step_us.lower_bound(poll_delay);
  if (later == step_us.end()) {
    return step_us.rbegin()->second;
  }
  if (later->first == poll_delay) {
    return later->second;
  }
  const auto sooner = std::prev(later);
  const double share = static_cast<double>(poll_delay - sooner->first) / (later->first - sooner->first);
  return sooner->second + share * (later->second - sooner->second);
}

int delay_of(const RecurrentPlan& plan) {
  return std::visit(
      [](const auto& of_family) {
        if constexpr (requires { of_family.poll_delay; }) {
          return of_family.poll_delay;
        } else {
          return 0;
        }
      },
      plan);
}

}  // namespace

TEST_CASE("in-sample: plans wait about as long before their first poll as is best on an H200", "[fast]") {
  // Of the best measured step. Where passes are pipelined, and of dense steps of 1 us, a scatter of 2 % is nothing
  // unusual.
  constexpr double kMost = 1.03, kMostPipelinedStep = 1.05, kMostDense = 1.065, kDenseMean = 1.015;
  const Chip chip = find_chip("h200").chip;
  const CsvReader rows(std::string(ONCHIP_SOURCE_DIR) + "/experiments/data/h200/poll_delay.csv");
  struct Measured {
    Configuration configuration;
    std::map<int, double> step_us;  // by delay
  };
  std::map<std::string, Measured> networks;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Configuration configuration = read_configuration_row(rows, i);
    Measured& of = networks[describe(configuration.network) + ' ' + std::string(family_name(*configuration.plan))];
    of.configuration = configuration;
    of.step_us[delay_of(*configuration.plan)] = rows.number(i, "step_us");
  }
  REQUIRE(networks.size() >= 34);
  double dense_sum = 0;
  int dense_count = 0;
  for (const auto& [description, measured] : networks) {
    CAPTURE(description);
    REQUIRE(measured.step_us.size() >= 8);
    Configuration asked = measured.configuration;
    asked.constraints.family = family_name(*asked.plan);
    const auto* sparse = std::get_if<SparsePlan>(&*measured.configuration.plan);
    fix<&SparsePlan::exchange>(asked.constraints, ExchangeProtocol::lamport);
    if (sparse != nullptr) {
      fix<&SparsePlan::producer_warps>(asked.constraints, sparse->producer_warps);
    }
    asked.plan.reset();
    const int poll_delay = delay_of(plan_network(chip, asked, row_profile(asked)).plan);
    CAPTURE(poll_delay);
    const double best =
        std::min_element(measured.step_us.begin(), measured.step_us.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;
        })->second;
    const bool is_dense = sparse == nullptr;
    const bool pipelined = sparse != nullptr && sparse->producer_warps > 0;
    const double step = step_at(measured.step_us, poll_delay) / best;
    CHECK(step < (is_dense ? kMostDense : pipelined ? kMostPipelinedStep : kMost));
    if (is_dense) {
      dense_sum += step;
      ++dense_count;
    }
  }
  CHECK(dense_sum / dense_count < kDenseMean);
}
