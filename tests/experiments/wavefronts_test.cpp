// SPDX-License-Identifier: Apache-2.0
// The simulated shared-memory accesses against an H200's counters (experiments/wavefronts), to the last wavefront.
#include "experiments/configuration.hpp"
#include "experiments/table.hpp"
#include "model/layout.hpp"
#include "model/parallel.hpp"
#include "sim/simulate.hpp"
#include "sim/trace_run.hpp"
#include "tests/catch.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace onchip;

namespace {

// The counter holds no arbitration, see below. Not equal are four rows: one whose count is no whole number of
// wavefronts a step (0.25 more), so that the counter has something else in it, too; two of four lanes per row and
// streamed weights, for which 0.3 % fewer are counted; and one of four planes at once, with a difference of 18 on each
// SM (0.8 %). The cause of these is not known.
constexpr int kNotEqual = 4;
constexpr double kMostDifference = 0.008;

// Of one step, of all SMs.
std::int64_t simulated_loads(const Chip& chip, const Configuration& configuration) {
  const Layout layout = make_layout(configuration.network, *configuration.plan, *recurrent_matrix(configuration));
  std::int64_t wavefronts = 0;
  for (const BlockBanks& block : count_banks(chip, plan_trace(chip, layout), all_cores())) {
    for (const BankCost& load : block.warp_loads) {
      wavefronts += load.wavefronts;
    }
  }
  return wavefronts;
}

}  // namespace

TEST_CASE("every shared-memory load takes the wavefronts that an H200 counts", "[fast]") {
  const Chip chip = find_chip("h200").chip;
  const CsvReader rows(std::string(ONCHIP_SOURCE_DIR) + "/experiments/data/h200/wavefronts.csv");
  REQUIRE(rows.size() >= 60);
  int equal = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Configuration configuration = read_configuration_row(rows, i);
    CAPTURE(i, describe(configuration.network), to_string(*configuration.plan));
    const auto simulated = static_cast<double>(simulated_loads(chip, configuration));
    const double counted = rows.number(i, "load_wavefronts");
    equal += simulated == counted;
    CHECK(std::abs(simulated - counted) < kMostDifference * counted);
  }
  CHECK(equal >= static_cast<int>(rows.size()) - kNotEqual);
}

TEST_CASE("the counter holds what loads need, and nothing of other accesses that want the same data array", "[fast]") {
  const CsvReader rows(std::string(ONCHIP_SOURCE_DIR) + "/experiments/data/h200/arbitration.csv");
  REQUIRE(rows.size() == 4);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(rows.text(i, "beside"));
    CHECK(rows.number(i, "unit_wavefronts") == 4 * rows.number(i, "loads"));
    CHECK(rows.number(i, "instruction_wavefronts") == 4 * rows.number(i, "loads"));
    CHECK(rows.number(i, "unit_bank_conflicts") == 0);
  }
  // The other accesses were there: 4 wavefronts for each of 8 warps, 1024 times, on every one of 132 SMs.
  REQUIRE(rows.text(1, "beside") == "stores");
  CHECK(rows.number(1, "unit_wavefronts_of_stores") > 4.0 * 8 * 1024 * 132);
}
