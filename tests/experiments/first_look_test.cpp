// SPDX-License-Identifier: Apache-2.0
// The wait that plans are given before their first look, against steps measured with other waits (experiments/recipes/record.sh).
#include "experiments/measurement/configuration.hpp"
#include "experiments/command/table.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

using namespace onchip;

namespace {

// Between measured waits, a straight line; beyond the longest, its step.
double step_at(const std::map<int, double>& step_us, int first_look) {
  const auto later = step_us.lower_bound(first_look);
  if (later == step_us.end()) {
    return step_us.rbegin()->second;
  }
  if (later->first == first_look) {
    return later->second;
  }
  const auto sooner = std::prev(later);
  const double share = static_cast<double>(first_look - sooner->first) / (later->first - sooner->first);
  return sooner->second + share * (later->second - sooner->second);
}

}  // namespace

TEST_CASE("plans wait about as long before their first look as is best on an H200", "[fast]") {
  // Of the best measured step. Where samples take turns, and of dense steps of 1 us, a scatter of 2 % is nothing
  // unusual.
  constexpr double kMost = 1.03, kMostInTurns = 1.05, kMostDense = 1.065, kDenseMean = 1.015;
  const Chip chip = find_chip("h200").chip;
  const CsvReader rows(std::string(ONCHIP_SOURCE_DIR) + "/experiments/data/h200/first_look.csv");
  struct Measured {
    Configuration configuration;
    std::map<int, double> step_us;  // by first look
  };
  std::map<std::string, Measured> networks;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Configuration configuration = read_configuration_row(rows, i);
    Measured& of = networks[describe(configuration.network) + ' ' + std::string(name(configuration.plan->family))];
    of.configuration = configuration;
    of.step_us[configuration.plan->first_look] = rows.number(i, "step_us");
  }
  REQUIRE(networks.size() >= 34);
  double dense_sum = 0;
  int dense_count = 0;
  for (const auto& [description, measured] : networks) {
    CAPTURE(description);
    REQUIRE(measured.step_us.size() >= 8);
    Configuration asked = measured.configuration;
    asked.wishes.family = asked.plan->family;
    asked.wishes.exchange = ExchangeProtocol::lamport;
    asked.wishes.exchange_warps = asked.plan->exchange_warps;
    asked.plan.reset();
    const int first_look = plan_network(chip, asked, row_profile(asked)).plan.first_look;
    CAPTURE(first_look);
    const double best =
        std::min_element(measured.step_us.begin(), measured.step_us.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;
        })->second;
    const bool is_dense = measured.configuration.plan->family == Family::dense_persistent;
    const bool in_turns = measured.configuration.plan->exchange_warps > 0;
    const double step = step_at(measured.step_us, first_look) / best;
    CHECK(step < (is_dense ? kMostDense : in_turns ? kMostInTurns : kMost));
    if (is_dense) {
      dense_sum += step;
      ++dense_count;
    }
  }
  CHECK(dense_sum / dense_count < kDenseMean);
}
