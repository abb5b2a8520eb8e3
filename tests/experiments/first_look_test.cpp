// SPDX-License-Identifier: Apache-2.0
// The wait that plans are given before their first look, against steps measured with other waits (experiments/record).
#include "experiments/configuration.hpp"
#include "experiments/table.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

using namespace onchip;

namespace {

// Between measured waits, a straight line.
double step_at(const std::map<int, double>& step_us, int first_look) {
  const auto later = step_us.lower_bound(first_look);
  REQUIRE(later != step_us.end());
  if (later->first == first_look) {
    return later->second;
  }
  const auto sooner = std::prev(later);
  const double share = static_cast<double>(first_look - sooner->first) / (later->first - sooner->first);
  return sooner->second + share * (later->second - sooner->second);
}

}  // namespace

TEST_CASE("plans wait about as long before their first look as is best on an H200", "[fast]") {
  constexpr double kMost = 1.03;  // of the best measured step
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
  REQUIRE(networks.size() >= 27);
  for (const auto& [description, measured] : networks) {
    CAPTURE(description);
    REQUIRE(measured.step_us.size() >= 8);
    Configuration asked = measured.configuration;
    asked.wishes.family = asked.plan->family;
    asked.wishes.exchange = ExchangeProtocol::lamport;
    asked.wishes.exchange_warps = 0;  // as in all plans measured: where samples take turns other waits are best
    asked.plan.reset();
    const int first_look = plan_network(chip, asked, row_profile(asked)).plan.first_look;
    CAPTURE(first_look);
    const double best =
        std::min_element(measured.step_us.begin(), measured.step_us.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;
        })->second;
    CHECK(step_at(measured.step_us, first_look) < kMost * best);
  }
}
