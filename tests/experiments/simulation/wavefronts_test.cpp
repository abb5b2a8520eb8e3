// SPDX-License-Identifier: Apache-2.0
// The simulated shared-memory accesses against an H200's counters (experiments/recipes/wavefronts.py), to the last
// wavefront.
#include "experiments/command/configuration_rows.hpp"
#include "model/base/parallel.hpp"
#include "model/base/table.hpp"
#include "model/families/layout.hpp"
#include "sim/machine/trace_run.hpp"
#include "sim/simulate.hpp"
#include "tests/catch.hpp"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

using namespace onchip;

namespace {

// Wavefronts of one step, of all SMs.
struct Simulated {
  std::int64_t loads = 0, stores = 0;
};
Simulated simulate_banks(const Chip& chip, const Configuration& configuration) {
  const Layout layout = make_layout(configuration.network, *configuration.plan, *recurrent_matrix(configuration));
  const auto sum = [](const std::vector<BankCost>& warps) {
    return std::accumulate(warps.begin(), warps.end(), std::int64_t{0},
                           [](std::int64_t all, const BankCost& cost) { return all + cost.wavefronts; });
  };
  Simulated result;
  for (const BlockBanks& block : count_banks(chip, *plan_trace(chip, layout), all_cores())) {
    result.loads += sum(block.warp_loads);
    result.stores += sum(block.warp_stores);
  }
  return result;
}

}  // namespace

// Some launches have a few wavefronts of stores more, which are no whole number a step: where the state is polled,
// where weights are streamed, and now and then elsewhere.
TEST_CASE("shared-memory loads and stores take the wavefronts that an H200 counts", "[slow]") {
  const Chip chip = find_chip("h200").chip;
  const CsvReader rows(std::string(ONCHIP_SOURCE_DIR) + "/experiments/data/h200/wavefronts.csv");
  REQUIRE(rows.size() >= 78);
  constexpr double kMostDifference = 0.02;
  int equal = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Configuration configuration = read_configuration_row(rows, i);
    CAPTURE(i, describe(configuration.network), to_string(*configuration.plan));
    const Simulated simulated = simulate_banks(chip, configuration);
    CHECK(static_cast<double>(simulated.loads) == rows.number(i, "load_wavefronts"));
    const double stores = rows.number(i, "store_wavefronts");
    CHECK(std::abs(static_cast<double>(simulated.stores) - stores) < kMostDifference * stores);
    equal += static_cast<double>(simulated.stores) == stores;
  }
  CHECK(equal >= 60);
}
